//! Counters of one subject, such as a stream, in one table. A new counter needs one line in the
//! table and the code that counts. Reports, JSON and messages read the table.

/// One counter, for output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Name in JSON.
    pub name: &'static str,
    /// Text after the number, plural and singular. `None` if another line reports the counter.
    pub words: Option<(&'static str, &'static str)>,
    /// Count.
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
            /// Creates counters from a function of their names.
            pub fn of(count: impl Fn(&str) -> u64) -> Self {
                Self { $($field: count($name),)+ }
            }

            /// Creates counters from a function of their names. `None` if one of them is unknown.
            pub fn known(count: impl Fn(&str) -> Option<u64>) -> Option<Self> {
                Some(Self { $($field: count($name)?,)+ })
            }

            /// Returns all counters in the order of reports.
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
    /// Counters of one stream since its start: from the receiver, its link, its device, and the
    /// RTCP session.
    Counters:
    /// Packets sent.
    sent: "packets_sent";
    /// Valid packets of the stream, including duplicates and late ones.
    received: "packets_received";
    /// Packets missing at their turn. A packet that arrives late is subtracted again.
    lost: "lost";
    /// Packets that arrived after their turn, in whole or in part.
    late: "late";
    /// Packets that arrived after a later packet.
    reordered: "reordered", "reordered", "reordered";
    /// Packets already received, or too old to check.
    duplicate: "duplicate", "duplicate", "duplicate";
    /// Packets rebuilt from redundancy in time. If the packet itself arrives, it counts as
    /// reordered.
    repaired: "repaired", "repaired", "repaired";
    /// Packets with valid sound but invalid redundancy.
    damaged: "damaged", "damaged", "damaged";
    /// Packets that arrived in time but were not decodable: damaged, or of another coding.
    undecodable: "undecodable", "not decodable", "not decodable";
    /// Packets too early for the buffer.
    too_early: "too_early", "early", "early";
    /// Datagrams that are not valid packets, for any reason.
    invalid: "invalid", "invalid", "invalid";
    /// Packets of another sender, or with this sender's name from another source address.
    other_source: "other_source", "from other sources", "from another source";
    /// Reports in the sender's name from another host.
    other_source_reports: "other_source_reports", "reports from other hosts", "report from another host";
    /// Packets of senders without a place on a shared link.
    over_stream_limit: "over_stream_limit", "over the stream limit", "over the stream limit";
    /// Datagrams that failed authentication.
    auth_failed: "auth_failed", "failed authentication", "failed authentication";
    /// Packets off the timeline that no other packet has confirmed.
    on_probation: "on_probation", "on probation", "on probation";
    /// Sender reports off the timeline that no other report has confirmed.
    reports_on_probation: "reports_on_probation", "reports on probation", "report on probation";
    /// Rejected clock exchanges with the sender.
    rejected_exchanges: "rejected_exchanges", "clock exchanges rejected", "clock exchange rejected";
    /// Steps of the sender's clock.
    clock_steps: "clock_steps", "clock steps", "clock step";
    /// Packets whose sender marks its presentation clock as uncertain.
    uncertain_clock: "uncertain_clock", "from an uncertain clock", "from an uncertain clock";
    /// Packets that are missing from the statistics because the ring was full.
    trace_overflow: "trace_overflow", "not logged", "not logged";
    /// Packets that arrived in time but were not played: the device played its own silence.
    underrun_discarded: "underrun_discarded", "discarded by underruns", "discarded by an underrun";
    /// Packets whose turn passed while the device was still opening.
    before_start: "before_start", "before the device started", "before the device started";
    /// Receivers that stopped reporting without a goodbye (counted by a sender).
    receivers_lost: "receivers_lost", "receivers lost", "receiver lost";
    /// Datagrams dropped by full buffers of this host.
    socket_drops: "socket_drops", "dropped by a full socket", "dropped by a full socket";
    /// Datagrams that the system rejected or had no room for.
    send_errors: "send_errors", "send errors", "send error";
    /// Packets dropped because a connection did not accept them in time.
    send_timeouts: "send_timeouts", "dropped by a slow connection", "dropped by a slow connection";
    /// Device underruns and overruns.
    xruns: "xruns", "xruns", "xrun";
    /// Resynchronisations: another sender, a pause or restart of the sender, or a move of the due
    /// position.
    resyncs: "resyncs", "resyncs", "resync";
    /// Restarts of the sender's media clock that the sender announced (`mr` of AVTP), as after an
    /// xrun. Each causes a resync.
    media_clock_restarts: "media_clock_restarts", "restarts of the talker's media clock", "restart of the talker's media clock";
    /// Frames missing at their turn while the stream ran.
    missing_frames: "missing_frames", "frames missing", "frame missing";
    /// Missing frames that were concealed. The others were silent.
    concealed_frames: "concealed_frames", "of them concealed", "of them concealed";
    /// Missing frames between packets with consecutive numbers. They were not lost: the sender's
    /// card did not deliver them.
    skipped_frames: "skipped_frames", "frames the sender's card did not deliver",
        "frame the sender's card did not deliver";
    /// Frames that were resampled to follow a card of another rate. All others were copied.
    resampled_frames: "resampled_frames", "frames resampled", "frame resampled";
    /// Number of these glitches during stalls of the whole host.
    host_stalled: "host_stalled", "of these during host stalls", "of these during a host stall";
}

impl Counters {
    /// Packets that were lost, late, or in time while the device underran.
    pub const fn missed(&self) -> u64 {
        self.lost + self.late + self.underrun_discarded
    }
}

counters! {
    /// Receivers' reports to the sender of a stream.
    ReceiverCounters:
    /// Packets that were due at the receivers.
    expected: "receiver_expected";
    /// Packets that were missing at the receivers.
    lost: "receiver_lost";
    /// Packets that were late at the receivers.
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
        let reported = counters.each().filter(|counted| counted.words.is_some()).count();
        assert_eq!(reported, all - 4, "another line reports packets sent, received, lost and late");
    }
}
