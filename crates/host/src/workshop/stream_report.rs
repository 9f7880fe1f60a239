//! A stream's state, from its successive processes.

use tautline_api::v1::{PluginPort, StreamPhase, WorkCounters, WorkStreamState};
use tautline_io::clock::now;
use tautline_proto::time::{LocalTime, Span};

use crate::ladspa::abi::{CONTROL, INPUT};
use crate::plan::{ChildStanding, Plan};

#[derive(Debug)]
pub(super) struct StreamReport {
    pub(super) state: WorkStreamState,
    pub(super) process: Option<u32>,
    pub(super) standby: Option<u32>,
    before: WorkCounters,
    newest: ChildStanding,
    at: LocalTime,
    processor_time: Option<Span>,
    pub(super) received: LocalTime,
    has_controls: bool,
}

impl StreamReport {
    pub(super) fn new(plan: &Plan, plugin: &str, ports: &[PluginPort], udp_port: u16) -> Self {
        let control = (CONTROL | INPUT) as u32;
        Self {
            state: WorkStreamState {
                id: plan.stream,
                plugin: plugin.to_owned(),
                rate: plan.request.rate,
                max_frames: plan.request.max_frames,
                udp_port,
                phase: StreamPhase::Starting,
                reason: None,
                restarts: 0,
                epoch: 0,
                dirty: false,
                latency_frames: 0,
                core: None,
                share: 0.0,
                counters: WorkCounters::default(),
            },
            process: None,
            standby: None,
            before: WorkCounters::default(),
            newest: ChildStanding::default(),
            at: LocalTime::ZERO,
            processor_time: None,
            received: now(),
            has_controls: ports.iter().any(|port| port.descriptor & control == control),
        }
    }

    pub(super) fn ready(&mut self, now: LocalTime, processor_time: Option<Span>) {
        (self.newest, self.at) = (ChildStanding::default(), now);
        self.processor_time = processor_time;
        self.state.phase = StreamPhase::Idle;
    }

    /// Returns the plugin's share of a core since the last report, limited to the kernel's time and
    /// one core: reports can be forged.
    pub(super) fn take(
        &mut self,
        standing: ChildStanding,
        now: LocalTime,
        processor_time: Option<Span>,
    ) -> f64 {
        let taken = processor_time.zip(self.processor_time).map(|(now, before)| now - before);
        self.processor_time = processor_time;
        let (since, before) = (now - self.at, self.newest);
        let busy = standing.counters.busy_ns.saturating_sub(before.counters.busy_ns);
        if standing.counters.received > before.counters.received {
            self.received = now;
        }
        let moves = standing.counters.blocks > before.counters.blocks;
        (self.newest, self.at) = (standing, now);
        self.state.phase = if moves { StreamPhase::Running } else { StreamPhase::Idle };
        self.state.epoch = standing.epoch;
        self.state.dirty = standing.dirty;
        self.state.latency_frames = standing.latency;
        self.state.counters = sum(&self.before, &standing.counters);
        if self.has_controls && standing.odd_controls > before.odd_controls {
            self.state.reason = Some(format!(
                "a control was NaN or infinite in {} blocks and reached the plugin unchanged; check the source of the \
                 controls at the master",
                standing.odd_controls
            ));
        }
        let busy = taken.map_or(busy, |taken| busy.min(taken.as_nanos().max(0).unsigned_abs()));
        if since > Span::ZERO { (busy as f64 / since.as_nanos() as f64).min(1.0) } else { 0.0 }
    }

    pub(super) fn ended(&mut self, why: String) {
        self.process = None;
        self.before = self.state.counters;
        self.newest = ChildStanding::default();
        self.state.phase = StreamPhase::Restarting;
        self.state.reason = Some(why);
    }
}

fn sum(one: &WorkCounters, other: &WorkCounters) -> WorkCounters {
    WorkCounters {
        blocks: one.blocks.saturating_add(other.blocks),
        retransmitted: one.retransmitted.saturating_add(other.retransmitted),
        retransmit_requests: one.retransmit_requests.saturating_add(other.retransmit_requests),
        expired: one.expired.saturating_add(other.expired),
        received: one.received.saturating_add(other.received),
        sent: one.sent.saturating_add(other.sent),
        duplicate: one.duplicate.saturating_add(other.duplicate),
        invalid: one.invalid.saturating_add(other.invalid),
        other_stream: one.other_stream.saturating_add(other.other_stream),
        auth_failed: one.auth_failed.saturating_add(other.auth_failed),
        busy_ns: one.busy_ns.saturating_add(other.busy_ns),
        longest_ns: one.longest_ns.max(other.longest_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_api::v1::StreamRequest;

    use crate::chain::Recipe;
    use crate::offers::PortCounts;
    use crate::plan::{ChildEvent, PlannedPipeline};

    fn forged() -> ChildStanding {
        let counts = [
            "blocks",
            "retransmitted",
            "retransmit_requests",
            "expired",
            "received",
            "sent",
            "duplicate",
            "invalid",
            "other_stream",
            "auth_failed",
            "busy_ns",
            "longest_ns",
        ];
        let counts = counts.map(|count| format!(r#""{count}":{}"#, u64::MAX)).join(",");
        let line = format!(
            r#"{{"standing":{{"epoch":{0},"dirty":true,"latency":{0},"odd_controls":{1},"counters":{{{counts}}}}}}}"#,
            u32::MAX,
            u64::MAX
        );
        match serde_json::from_str(&line) {
            Ok(ChildEvent::Standing(standing)) => standing,
            other => panic!("{other:?}"),
        }
    }

    fn of_busy(busy_ns: u64) -> ChildStanding {
        let counters = WorkCounters { busy_ns, ..WorkCounters::default() };
        ChildStanding { counters, ..ChildStanding::default() }
    }

    fn reported() -> StreamReport {
        let plan = Plan {
            recipe: Recipe::Plugin { path: "odd.so".into(), label: "odd".into() },
            readable: Vec::new(),
            ports: PortCounts { inputs: 1, outputs: 1, controls: 0, reported: 0 },
            stream: 1,
            request: StreamRequest::of("odd:odd", 48_000, 64),
            incarnation: 0,
            secret: None,
            pipeline: PlannedPipeline::default(),
            scheduler: "other".to_owned(),
            measure: false,
            timeout_ms: 300,
        };
        StreamReport::new(&plan, "odd:odd", &[], 9)
    }

    #[test]
    fn forged_counters_saturate() {
        let mut reported = reported();
        for _ in 0..2 {
            reported.ready(now(), None);
            reported.take(forged(), now(), None);
            reported.take(ChildStanding::default(), now(), None);
            reported.take(forged(), now(), None);
            reported.ended("it crashed".into());
        }
        let counters = reported.state.counters;
        assert_eq!((counters.blocks, counters.busy_ns), (u64::MAX, u64::MAX));
        assert_eq!(counters.longest_ns, u64::MAX);
    }

    #[test]
    fn share_is_bounded_by_kernel_time_and_one_core() {
        let second = |number| LocalTime::ZERO + Span::from_secs(number);
        let millis = |number| Some(Span::from_millis(number));
        let share = |report: ChildStanding, time: [Option<Span>; 2]| {
            let mut reported = reported();
            reported.ready(second(1), time[0]);
            reported.take(report, second(2), time[1])
        };
        let honest = of_busy(200_000_000);
        assert!((share(honest, [millis(10), millis(260)]) - 0.2).abs() < 1e-9);
        assert!((share(forged(), [millis(10), millis(260)]) - 0.25).abs() < 1e-9);
        assert!((share(forged(), [millis(0), millis(4000)]) - 1.0).abs() < 1e-9, "of four threads");
        assert!((share(forged(), [millis(10), None]) - 1.0).abs() < 1e-9, "it has ended");
        assert!((share(forged(), [None, None]) - 1.0).abs() < 1e-9);
    }
}
