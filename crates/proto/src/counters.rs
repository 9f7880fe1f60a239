//! Table of counters. Reports, JSON and messages read it.

/// One counter for output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Name in JSON.
    pub name: &'static str,
    /// Text after the number, plural and singular. `None`: another line reports it.
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
            /// Creates counters by name.
            pub fn of(count: impl Fn(&str) -> u64) -> Self {
                Self { $($field: count($name),)+ }
            }

            /// The same; `None` if one of the counters is unknown.
            pub fn known(count: impl Fn(&str) -> Option<u64>) -> Option<Self> {
                Some(Self { $($field: count($name)?,)+ })
            }

            /// All counters in report order.
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
    /// Counters of a stream since its start.
    Counters:
    /// Packets sent.
    sent: "packets_sent";
    /// Valid packets, including duplicates and late packets.
    received: "packets_received";
    /// Packets that neither arrived nor were rebuilt in time.
    lost: "lost";
    /// Packets that arrived after their turn, in whole or in part.
    late: "late";
    /// Packets that arrived after a later one.
    reordered: "reordered", "reordered", "reordered";
    /// Packets already received, or too old to check.
    duplicate: "duplicate", "duplicate", "duplicate";
    /// Packets rebuilt in time from redundancy, or received as a copy of the whole packet. One that
    /// arrives later is reordered too.
    repaired: "repaired", "repaired", "repaired";
    /// Repaired packets that arrived after all. Repaired packets that are neither these nor whole
    /// copies are missing in `packets_received`.
    repaired_arrived: "repaired_arrived", "of them arrived after all", "of them arrived after all";
    /// Repaired packets received as a copy of the whole packet, also in `packets_received`.
    repaired_whole: "repaired_whole", "of them as whole copies", "of them as a whole copy";
    /// Valid sound, invalid redundancy.
    damaged: "damaged", "damaged", "damaged";
    /// In time, but damaged or of another coding.
    undecodable: "undecodable", "not decodable", "not decodable";
    /// Packets too early for the buffer.
    too_early: "too_early", "early", "early";
    /// Datagrams that are not packets.
    invalid: "invalid", "invalid", "invalid";
    /// Packets of another sender or source address.
    other_source: "other_source", "from other sources", "from another source";
    /// Reports in the sender's name from other hosts.
    other_source_reports: "other_source_reports", "reports from other hosts", "report from another host";
    /// Packets of senders without a place.
    over_stream_limit: "over_stream_limit", "over the stream limit", "over the stream limit";
    /// Datagrams that failed authentication.
    auth_failed: "auth_failed", "failed authentication", "failed authentication";
    /// Packets far from the expected media time, until a second one confirms it.
    on_probation: "on_probation", "on probation", "on probation";
    /// Reports far from the expected media time, until a second one confirms it.
    reports_on_probation: "reports_on_probation", "reports on probation", "report on probation";
    /// Rejected clock exchanges.
    rejected_exchanges: "rejected_exchanges", "clock exchanges rejected", "clock exchange rejected";
    /// Steps of the sender's clock.
    clock_steps: "clock_steps", "clock steps", "clock step";
    /// Packets with an uncertain presentation clock.
    uncertain_clock: "uncertain_clock", "from an uncertain clock", "from an uncertain clock";
    /// Packets missing from statistics: the ring was full.
    trace_overflow: "trace_overflow", "not logged", "not logged";
    /// Packets in time, replaced by the device's silence.
    underrun_discarded: "underrun_discarded", "discarded by underruns", "discarded by an underrun";
    /// Packets whose turn passed while the device opened.
    before_start: "before_start", "before the device started", "before the device started";
    /// Receivers gone without a goodbye (at a sender).
    receivers_lost: "receivers_lost", "receivers lost", "receiver lost";
    /// Datagrams dropped by full socket buffers.
    socket_drops: "socket_drops", "dropped by a full socket", "dropped by a full socket";
    /// Datagrams rejected by the system.
    send_errors: "send_errors", "send errors", "send error";
    /// Packets that a connection did not accept in time.
    send_timeouts: "send_timeouts", "dropped by a slow connection", "dropped by a slow connection";
    /// Device underruns and overruns.
    xruns: "xruns", "xruns", "xrun";
    /// Resynchronisations: another sender, a pause, a restart, or a moved due position.
    resyncs: "resyncs", "resyncs", "resync";
    /// Announced restarts of the media clock (AVTP `mr`). Each causes a resync.
    media_clock_restarts: "media_clock_restarts", "restarts of the talker's media clock", "restart of the talker's media clock";
    /// Frames missing at their turn.
    missing_frames: "missing_frames", "frames missing", "frame missing";
    /// Missing frames concealed; the others were silent.
    concealed_frames: "concealed_frames", "of them concealed", "of them concealed";
    /// Missing frames between consecutive packets: the sender's card did not deliver them.
    skipped_frames: "skipped_frames", "frames the sender's card did not deliver",
        "frame the sender's card did not deliver";
    /// Frames resampled; all others were copied.
    resampled_frames: "resampled_frames", "frames resampled", "frame resampled";
    /// Glitches in host stalls.
    host_stalled: "host_stalled", "of these during host stalls", "of these during a host stall";
}

impl Counters {
    /// Packets lost, late, or discarded by underruns.
    pub const fn missed(&self) -> u64 {
        self.lost + self.late + self.underrun_discarded
    }
}

counters! {
    /// Receivers' reports to a sender.
    ReceiverCounters:
    /// Packets due.
    expected: "receiver_expected";
    /// Packets missing.
    lost: "receiver_lost";
    /// Packets late.
    late: "receiver_late";
    /// Packets repaired in time.
    repaired: "receiver_repaired";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_its_own_name() {
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
