//! All that is counted of one matter, such as a stream, in one table: a new counter is one line there, and the place
//! that counts it. Reports, JSON and people are told of each from this table.

/// One counter as it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Its name in JSON.
    pub name: &'static str,
    /// What people are told after the number, for several and for one; `None` where a line of its own
    /// tells it.
    pub words: Option<(&'static str, &'static str)>,
    /// How many.
    pub count: u64,
}

macro_rules! counters {
    (
        $(#[$of:meta])* $table:ident:
        $($(#[$doc:meta])* $field:ident: $name:literal $(, $several:literal, $one:literal)?;)+
    ) => {
        $(#[$of])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $table {
            $($(#[$doc])* pub $field: u64,)+
        }

        impl $table {
            /// Counters with these counts, by their names.
            pub fn of(count: impl Fn(&str) -> u64) -> Self {
                Self { $($field: count($name),)+ }
            }

            /// The same, if each has a count.
            pub fn known(count: impl Fn(&str) -> Option<u64>) -> Option<Self> {
                Some(Self { $($field: count($name)?,)+ })
            }

            /// Each counter, in the order in which they are told.
            pub fn each(&self) -> impl Iterator<Item = $crate::counters::Counted> + use<> {
                [$($crate::counters::Counted {
                    name: $name,
                    words: $crate::counters::words(&[$(($several, $one))?]),
                    count: self.$field,
                },)+].into_iter()
            }
        }
    };
}
pub(crate) use counters;

pub(crate) const fn words(
    words: &[(&'static str, &'static str)],
) -> Option<(&'static str, &'static str)> {
    match words {
        [words, ..] => Some(*words),
        [] => None,
    }
}

counters! {
    /// What was counted of one stream since it began, each by whoever saw it: the receiver, its
    /// link and its device, the conversation with the sender.
    Counters:
    /// Packets that left.
    sent: "packets_sent";
    /// Datagrams that were packets of the stream, duplicates and late ones included.
    received: "packets_received";
    /// Packets that had not come when their turn came. A late one is taken off again.
    lost: "lost";
    /// Packets that came after their turn, wholly or in part.
    late: "late";
    /// Packets that came after a later one.
    reordered: "reordered", "reordered", "reordered";
    /// Packets that had come before, or that were sent so long before the newest that nobody knows any
    /// more whether they had.
    duplicate: "duplicate", "duplicate", "duplicate";
    /// Packets that were rebuilt from what others carried, in time to be played. One that comes in
    /// person afterwards is counted as reordered.
    repaired: "repaired", "repaired", "repaired";
    /// Packets whose sound was good and what they carried of others was not.
    damaged: "damaged", "damaged", "damaged";
    /// Packets in time whose sound could not be decoded: the coding is another, or they were damaged.
    undecodable: "undecodable", "not decodable", "not decodable";
    /// Packets further in the future than there is room for.
    early: "early", "early", "early";
    /// Datagrams that were no packet, whatever the reason.
    invalid: "invalid", "invalid", "invalid";
    /// Packets of another sender, or with this one's name from another place, while this one is heard.
    foreign: "foreign", "foreign", "foreign";
    /// Reports in the sender's name from another host.
    foreign_reports: "foreign_reports", "foreign reports", "foreign report";
    /// Packets of senders for whom there was no place at a link that they share.
    unplaced: "unplaced", "without a place", "without a place";
    /// Datagrams that were not sealed as the link opens them.
    unopened: "unopened", "not sealed as asked", "not sealed as asked";
    /// Packets that did not fit the timeline and that no other confirmed yet.
    doubted: "doubted", "doubted", "doubted";
    /// Reports of the sender that did not fit the timeline and that no other confirmed yet.
    doubted_reports: "doubted_reports", "reports doubted", "report doubted";
    /// Answers about the sender's clock that were not believed.
    refused_exchanges: "refused_exchanges", "exchanges refused", "exchange refused";
    /// Times that the sender's clock was stepped.
    clock_steps: "clock_steps", "clock steps", "clock step";
    /// Packets whose sender says that the clock of their presentation times is not to be relied upon.
    uncertain: "uncertain", "presented by an uncertain clock", "presented by an uncertain clock";
    /// Packets for whose line the statistics had no room.
    unbooked: "unbooked", "not booked", "not booked";
    /// Packets that were here in time and were not heard, as the device played silence of its own at
    /// their turn.
    unheard: "unheard", "unheard", "unheard";
    /// Packets that came, and whose turn was over before the device asked for the first block of their
    /// stream: it was being opened.
    unasked: "unasked", "before the device asked for any", "before the device asked for any";
    /// Times that a receiver stopped reporting without a goodbye, at a sender.
    receivers_lost: "receivers_lost", "receivers lost", "receiver lost";
    /// Datagrams that found a buffer of this host full.
    socket_drops: "socket_drops", "dropped by a full socket", "dropped by a full socket";
    /// Datagrams that the system refused, or that there was no room for.
    send_errors: "send_errors", "send errors", "send error";
    /// Packets that were dropped since a connection did not take them in time.
    overdue: "overdue", "not taken by the connection in time", "not taken by the connection in time";
    /// Times that the device starved, or nobody fetched what it captured.
    xruns: "xruns", "xruns", "xrun";
    /// Times the playout was laid anew: as another sender is heard, as the one that is heard paused or
    /// began again, or as what was due moved.
    resyncs: "resyncs", "resyncs", "resync";
    /// Times that the sender said that its media clock restarted (`mr` of AVTP), as after an xrun of its own: each is
    /// a resync.
    restarts: "restarts", "restarts of the talker's media clock", "restart of the talker's media clock";
    /// Frames that were due and had not come, while the stream ran.
    missing_frames: "missing_frames", "frames missing", "frame missing";
    /// Of those, frames in whose place the sound before went on; the others were silent.
    concealed_frames: "concealed_frames", "of them concealed", "of them concealed";
    /// Of the missing ones, frames between two packets whose numbers follow each other: nothing was
    /// lost on the way, the sender's card did not deliver them.
    skipped_frames: "skipped_frames", "frames the sender's card did not deliver",
        "frame the sender's card did not deliver";
    /// Frames played that were resampled, to stay in time with a card of another rate; all others
    /// were played as they came.
    resampled_frames: "resampled_frames", "frames resampled", "frame resampled";
    /// Of all these, what happened while the whole host stood still.
    host_stalled: "host_stalled", "of all these the host's", "of these the host's";
}

counters! {
    /// What receivers report of a stream to its sender.
    ReceiverCounters:
    /// Packets that were due at them so far.
    expected: "receiver_expected";
    /// Of those, packets that they miss.
    lost: "receiver_lost";
    /// Of those, packets that came after their turn.
    late: "receiver_late";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_told_by_a_name_of_its_own() {
        let counters = Counters { sent: 1, host_stalled: 2, ..Counters::default() };
        let mut names: Vec<_> = counters.each().map(|counted| counted.name).collect();
        assert_eq!((names[0], *names.last().unwrap()), ("packets_sent", "host_stalled"));
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all, "{names:?}");
        assert_eq!(counters.each().map(|counted| counted.count).sum::<u64>(), 3);
        let told = counters.each().filter(|counted| counted.words.is_some()).count();
        assert_eq!(told, all - 4, "packets sent, received, lost and late have a line of their own");
    }
}
