//! Text about arrivals: sufficient latency, and fixes for missed packets.

use core::fmt::{self, Write};

use super::Nanos;
use super::call::dropped_by_sender;
use super::redundancy::Repairs;
use crate::{GapReport, LatencyReport, LatenessPoint, StreamReport};

/// Minimum packets for advice: with fewer, rare events have no significance.
pub(super) const WORTH_TELLING: u64 = 1_000;

/// A needed latency of more than this many times the present one comes from an interruption.
const FAR: i64 = 10;

const SHARES: [f64; 9] = [0.5, 0.2, 0.1, 0.02, 0.01, 0.001, 0.0001, 0.00001, 0.0];

#[derive(Debug, Clone, Copy)]
pub(super) struct LatencyAdvice {
    needs_ns: i64,
    kept_ns: i64,
    target: f64,
    with_repairs: bool,
    /// Maximum that an automatic latency reached, and its limit.
    auto_ns: Option<[i64; 2]>,
}

impl LatencyAdvice {
    pub(super) fn of(latency: &LatencyReport, packets: u64, repairs: &Repairs) -> Option<Self> {
        let (advised, target) = (latency.recommended_ns?, latency.loss_target?);
        let kept_ns = latency.configured_ns.filter(|_| packets >= WORTH_TELLING)?;
        let bare = latency.curve.iter().find(|point| point.late_share <= target);
        let waits = bare.is_some_and(|bare| bare.latency_ns < advised);
        let repair = repairs.unrepaired_need_ns();
        Some(Self {
            needs_ns: repair.map_or(advised, |repair| repair.max(advised)),
            kept_ns,
            target,
            with_repairs: waits || repair.is_some(),
            auto_ns: latency.auto.map(|auto| {
                let reached = auto.max_ns.max(auto.last_ns);
                [reached, auto.limit_ns.unwrap_or(reached).max(reached)]
            }),
        })
    }

    fn is_kept(&self) -> bool {
        self.needs_ns <= self.auto_ns.map_or(self.kept_ns, |[_, limit]| limit)
    }
}

impl fmt::Display for LatencyAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { needs_ns, target, with_repairs, .. } = *self;
        let repairs = if with_repairs { ", with time for repairs" } else { "" };
        write!(f, "{} ({} late or less{repairs})", Nanos(needs_ns), Percent(target))
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct GapHints<'a> {
    pub(super) repairs: &'a Repairs,
    pub(super) advice: Option<LatencyAdvice>,
    /// Whether only the talker can change the latency (AVTP presentation times).
    pub(super) presented: bool,
    /// Duration of the silence instead of the sender's device, if most of `not sent`.
    pub(super) device_lost_ns: i64,
}

impl<'a> GapHints<'a> {
    pub(super) fn of(stream: &StreamReport, repairs: &'a Repairs) -> Self {
        let latency = &stream.latency;
        let advice = LatencyAdvice::of(latency, stream.counters.received, repairs);
        let presented = latency.presented.is_some() && latency.recommended_ns.is_none();
        let not_sent = stream.gaps.map_or(0, |gaps| gaps.not_sent);
        let device = stream.sender_device.unwrap_or_default();
        let is_most = 2 * device.replaced_packets(stream.ptime_ns) > not_sent;
        let device_lost_ns = if is_most { device.replaced_ns } else { 0 };
        Self { repairs, advice, presented, device_lost_ns }
    }

    #[cfg(test)]
    pub(super) fn unadvised(repairs: &'a Repairs) -> Self {
        Self { repairs, advice: None, presented: false, device_lost_ns: 0 }
    }

    fn is_kept(&self) -> bool {
        self.advice.is_some_and(|advice| advice.is_kept())
    }

    /// `otherwise` if even 99 % of the packets need far more than the present latency.
    fn latency_or(&self, otherwise: &str, catches_ns: Option<i64>) -> String {
        let kept =
            self.advice.map(|advice| advice.auto_ns.map_or(advice.kept_ns, |[reached, _]| reached));
        let is_far = |needs: i64| kept.is_some_and(|kept| needs > kept.saturating_mul(FAR));
        match self.advice {
            Some(advice) if is_far(advice.needs_ns) => match catches_ns {
                Some(needs) if !is_far(needs) => {
                    Self { advice: None, ..*self }.longer_latency(Some(needs))
                }
                _ => otherwise.to_owned(),
            },
            _ => self.longer_latency(catches_ns),
        }
    }

    fn longer_latency(&self, catches_ns: Option<i64>) -> String {
        match (self.advice, catches_ns) {
            _ if self.presented => "use a longer --max-transit-time at the talker".to_owned(),
            (Some(advice), _) if advice.auto_ns.is_some() => {
                format!("use --latency auto:{} or more", Nanos(advice.needs_ns))
            }
            (Some(advice), _) => format!("use --latency {advice}"),
            (None, Some(needs)) => {
                format!("use --latency {}, which would have caught 99 % of them", Nanos(needs))
            }
            _ => "use a longer --latency".to_owned(),
        }
    }
}

pub(super) fn curve(out: &mut String, latency: &LatencyReport) -> fmt::Result {
    writeln!(out, "  latency   would have been late")?;
    for LatenessPoint { latency_ns, late_share } in rows(&latency.curve) {
        writeln!(out, "  {:>7}   {}", Nanos(latency_ns), Percent(late_share))?;
    }
    Ok(())
}

fn rows(curve: &[LatenessPoint]) -> impl Iterator<Item = LatenessPoint> {
    let below = |share: f64| curve.iter().find(move |point| point.late_share <= share);
    let mut rows: Vec<LatenessPoint> =
        curve.first().into_iter().chain(SHARES.into_iter().filter_map(below)).copied().collect();
    rows.dedup_by_key(|point| point.latency_ns);
    rows.into_iter()
}

fn counts(gaps: &GapReport) -> [(&'static str, u64); 9] {
    [
        (TOO_SHORT, gaps.late_too_short),
        ("network late", gaps.late_network),
        ("sender late", gaps.late_sender),
        (UNATTRIBUTED, gaps.late_unattributed),
        ("receiver late", gaps.late_receiver),
        ("lost", gaps.lost),
        ("not sent", gaps.not_sent),
        ("discarded", gaps.discarded),
        ("host stalled", gaps.host_stalled),
    ]
}

const TOO_SHORT: &str = "latency too short";
const UNATTRIBUTED: &str = "sender or network late";

/// Names the causes of missed packets: `receiver late 65, lost 3`. TCP loses none, so the sender
/// dropped them.
pub fn causes(gaps: &GapReport, is_tcp: bool) -> String {
    let dropped = dropped_by_sender(gaps, is_tcp);
    let gaps = GapReport { lost: gaps.lost.saturating_sub(dropped), ..*gaps };
    let dropped = ("dropped by the sender (TCP too slow)", dropped);
    let counts = counts(&gaps).into_iter().chain([dropped]).filter(|(_, count)| *count > 0);
    let named = counts.map(|(name, count)| match (name, gaps.lost_in_outages) {
        ("lost", outages @ 1..) => format!("lost {count} ({outages} in outages)"),
        _ => format!("{name} {count}"),
    });
    named.collect::<Vec<_>>().join(", ")
}

/// Writes one recommendation: the fix for the main cause, or the margin if nothing was missed.
/// `scheduler` excludes fixes that are already applied.
pub(super) fn recommendation(
    out: &mut String,
    gaps: Option<&GapReport>,
    hints: &GapHints<'_>,
    scheduler: &str,
) -> fmt::Result {
    let counts = gaps.map(counts).unwrap_or_default();
    let main_cause = counts.iter().rev().max_by_key(|(_, count)| *count);
    match (gaps, main_cause) {
        (Some(gaps), Some((main_cause, 1..)))
            if !(main_cause.ends_with("late") || *main_cause == TOO_SHORT) || !hints.is_kept() =>
        {
            match hint(main_cause, gaps, hints, scheduler) {
                Some(fix) => writeln!(out, "fix: {fix}"),
                None => Ok(()),
            }
        }
        _ => match &hints.advice {
            Some(advice) if advice.is_kept() => {
                write!(out, "margin: ")?;
                // An adaptive latency at the end differs from the latency during the run.
                if advice.auto_ns.is_none() {
                    write!(out, "{}; ", Nanos(advice.kept_ns.saturating_sub(advice.needs_ns)))?;
                }
                writeln!(out, "the packets needed {advice}")
            }
            // Nothing was missed, so nothing needs a fix: [`needed`] gives the latency.
            _ => Ok(()),
        },
    }
}

/// Writes the needed latency if it exceeds the configured one and `out` has no latency yet.
pub(super) fn needed(out: &mut String, hints: &GapHints<'_>) -> fmt::Result {
    match hints.advice.filter(|advice| !advice.is_kept() && !out.contains("--latency")) {
        Some(advice) => writeln!(out, "needed: {advice}; configured {}", Nanos(advice.kept_ns)),
        None => Ok(()),
    }
}

/// Advice for every device, because a JACK server sets the periods of its clients.
const MORE_PERIODS: &str =
    "use a longer device buffer, which adds latency: --periods for ALSA, jackd -n or -p for JACK";

fn run_in_time(scheduler: &str) -> &'static str {
    match scheduler {
        "other" => "allow real-time priority (`taut doctor` shows how)",
        _ => MORE_PERIODS,
    }
}

const SENDER_STOPPED: &str = "the sender stopped for a while: run `taut doctor` there";
pub(super) const INTERRUPTED: &str =
    "the network was interrupted: check cables, Wi-Fi and switches";

fn hint(
    main_cause: &str,
    gaps: &GapReport,
    hints: &GapHints<'_>,
    scheduler: &str,
) -> Option<String> {
    let longer = |needs| hints.longer_latency(needs);
    let of_network = matches!(main_cause, "network late" | UNATTRIBUTED | "lost");
    if let Some(fix) = hints.repairs.fewer_bits(gaps).filter(|_| of_network) {
        return Some(fix.to_owned());
    }
    Some(match main_cause {
        "network late" | UNATTRIBUTED => {
            let latency = match main_cause {
                UNATTRIBUTED => {
                    let stopped = format!("{SENDER_STOPPED}; or {INTERRUPTED}");
                    hints.latency_or(&stopped, gaps.unattributed_needs_ns)
                }
                _ => hints.latency_or(INTERRUPTED, gaps.network_needs_ns),
            };
            match hints.repairs.fewer_bits_in_queue(gaps) {
                Some(fix) => format!("{latency}; on a slow line use {fix}"),
                None => latency,
            }
        }
        "sender late" => hints.latency_or(SENDER_STOPPED, gaps.sender_needs_ns),
        TOO_SHORT => longer(gaps.too_short_needs_ns),
        "not sent" if hints.device_lost_ns > 0 => format!(
            "the sender's device stopped for {}: check the card or the JACK server there",
            Nanos(hints.device_lost_ns)
        ),
        "not sent" => SENDER_STOPPED.to_owned(),
        "lost" if hints.repairs.unrepaired_need_ns().is_some() && hints.advice.is_some() => {
            longer(None)
        }
        "lost" if gaps.lost_in_outages * 2 > gaps.lost => {
            let others = gaps.lost.saturating_sub(gaps.lost_in_outages);
            match hints.repairs.hint(others).filter(|_| others > 0) {
                Some(fix) => format!("{INTERRUPTED}; for the other {others} lost: {fix}"),
                None => INTERRUPTED.to_owned(),
            }
        }
        "lost" => return hints.repairs.hint(gaps.lost),
        "receiver late" | "discarded" => {
            format!("this program ran late: {}", run_in_time(scheduler))
        }
        _ => format!("the whole machine stalled: {MORE_PERIODS}"),
    })
}

pub(super) struct Percent(pub(super) f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        match percent {
            0.0 => f.pad("none"),
            p if p >= 10.0 => write!(f, "{p:.0} %"),
            p => {
                let digits = (1 - p.log10().floor() as i32).clamp(1, 9) as usize;
                let text = format!("{p:.digits$}");
                write!(f, "{} %", text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::Auto;

    fn curve_of(points: &[(i64, f64)]) -> Vec<LatenessPoint> {
        let point =
            |&(millis, late_share)| LatenessPoint { latency_ns: millis * 1_000_000, late_share };
        points.iter().map(point).collect()
    }

    #[test]
    fn rows_stand_where_the_share_falls_and_nowhere_else() {
        let curve = curve_of(&[
            (3, 1.0),
            (4, 0.15),
            (5, 0.12),
            (6, 0.008),
            (7, 0.0005),
            (8, 0.0004),
            (9, 0.00005),
            (40, 0.0),
        ]);
        let rows: Vec<i64> = rows(&curve).map(|point| point.latency_ns / 1_000_000).collect();
        assert_eq!(rows, [3, 4, 6, 7, 9, 40]);
    }

    #[test]
    fn shares_are_shown_with_two_digits() {
        for (share, said) in [
            (1.0, "100 %"),
            (0.123, "12 %"),
            (0.02, "2 %"),
            (0.00013, "0.013 %"),
            (0.0001, "0.01 %"),
            (0.0, "none"),
        ] {
            assert_eq!(Percent(share).to_string(), said);
        }
    }

    #[test]
    fn most_frequent_cause_gets_its_fix() {
        let all = GapReport {
            late_sender: 3,
            late_network: 41,
            host_stalled: 2,
            network_needs_ns: Some(7_200_000),
            ..GapReport::default()
        };
        let mut out = String::new();
        let none = Repairs::default();
        recommendation(&mut out, Some(&all), &GapHints::unadvised(&none), "fifo:70").unwrap();
        snapshot!(out);
        out.clear();
        let lost = GapReport { lost: 1, ..GapReport::default() };
        recommendation(&mut out, Some(&lost), &GapHints::unadvised(&none), "fifo:70").unwrap();
        assert!(out.contains("use --redundancy auto at the sender"), "{out}");
        out.clear();
        let mut late = GapReport { late_too_short: 9, late_sender: 8, ..GapReport::default() };
        late.too_short_needs_ns = Some(44_100_000);
        recommendation(&mut out, Some(&late), &GapHints::unadvised(&none), "fifo:70").unwrap();
        snapshot!(out);
        out.clear();
        let stopped = GapReport { late_sender: 28, late_receiver: 41, not_sent: 478, ..all };
        recommendation(&mut out, Some(&stopped), &GapHints::unadvised(&none), "fifo:70").unwrap();
        assert_eq!(out, format!("fix: {SENDER_STOPPED}\n"));
        out.clear();
        recommendation(
            &mut out,
            Some(&GapReport::default()),
            &GapHints::unadvised(&none),
            "fifo:70",
        )
        .unwrap();
        assert_eq!(out, "");
    }

    fn shown(change: impl FnOnce(&mut LatencyReport), repairs: &Repairs) -> String {
        let mut latency = LatencyReport {
            configured_ns: Some(8_200_000),
            loss_target: Some(0.0001),
            recommended_ns: Some(1_118_000_000),
            curve: curve_of(&[(9, 0.01), (22, 0.0002), (1118, 0.0)]),
            ..LatencyReport::unmeasured()
        };
        change(&mut latency);
        let late = GapReport {
            late_network: 41,
            network_needs_ns: Some(21_930_000),
            ..GapReport::default()
        };
        let advice = LatencyAdvice::of(&latency, 10_000, repairs);
        let mut out = String::new();
        repairs.notify(&mut out).unwrap();
        let hints = GapHints { advice, ..GapHints::unadvised(repairs) };
        recommendation(&mut out, Some(&late), &hints, "fifo:70").unwrap();
        needed(&mut out, &hints).unwrap();
        curve(&mut out, &latency).unwrap();
        out
    }

    #[test]
    fn report_recommends_one_latency_with_its_condition() {
        let none = Repairs::default();
        let short = shown(|_| (), &none);
        snapshot!(short);
        assert!(!short.contains("1.118s ("), "{short}");
        let outage = shown(|latency| latency.configured_ns = Some(1_000_000), &none);
        assert!(outage.starts_with("fix: the network was interrupted"), "{outage}");
        let late = GapReport { late_unattributed: 9, ..GapReport::default() };
        assert_eq!(causes(&late, false), "sender or network late 9");
        let hints = GapHints::unadvised(&none);
        let fix = hint(UNATTRIBUTED, &late, &hints, "fifo:70").unwrap();
        assert!(fix.contains("--latency"), "{fix}");
        let enough = shown(|latency| latency.recommended_ns = Some(3_400_000), &none);
        snapshot!(enough);
        assert!(!enough.contains("--latency"), "{enough}");
        let followed = shown(|latency| latency.auto = Some(auto()), &none);
        assert!(followed.contains("--latency"), "{followed}");
        let below_limit = Some(Auto { limit_ns: Some(2_000_000_000), ..auto() });
        let below_limit = shown(|latency| latency.auto = below_limit, &none);
        assert!(!below_limit.contains("--latency"), "{below_limit}");
        let reached = Some(Auto { max_ns: 1_118_000_000, ..auto() });
        let enough = shown(|latency| latency.auto = reached, &none);
        assert!(!enough.contains("--latency"), "{enough}");
        let mut presented = String::new();
        let late = GapReport { late_network: 41, ..GapReport::default() };
        let hints = GapHints { presented: true, ..GapHints::unadvised(&none) };
        recommendation(&mut presented, Some(&late), &hints, "fifo:70").unwrap();
        assert_eq!(presented, "fix: use a longer --max-transit-time at the talker\n");
        let repairs = Repairs::short(20_000_000, 8_200_000);
        let repaired = shown(|latency| latency.recommended_ns = Some(12_000_000), &repairs);
        snapshot!(repaired);
        assert_eq!(repaired.matches("--latency").count(), 1, "{repaired}");
    }

    #[test]
    fn faultless_run_has_no_fix_but_the_needed_latency() {
        let latency = LatencyReport {
            configured_ns: Some(30_000_000),
            loss_target: Some(0.0001),
            recommended_ns: Some(38_100_000),
            curve: curve_of(&[(9, 0.01), (20, 0.0)]),
            ..LatencyReport::unmeasured()
        };
        let none = Repairs::default();
        let advice = LatencyAdvice::of(&latency, 20_000, &none);
        let hints = GapHints { advice, ..GapHints::unadvised(&none) };
        let mut out = String::new();
        recommendation(&mut out, Some(&GapReport::default()), &hints, "fifo:70").unwrap();
        assert_eq!(out, "", "nothing was missed");
        needed(&mut out, &hints).unwrap();
        snapshot!(out);
    }

    #[test]
    fn outage_and_other_losses_have_their_own_counts_and_fixes() {
        let gaps = GapReport { lost: 1_342, lost_in_outages: 1_000, ..GapReport::default() };
        assert_eq!(causes(&gaps, false), "lost 1342 (1000 in outages)");
        let tcp = "lost 1000 (1000 in outages), dropped by the sender (TCP too slow) 342";
        assert_eq!(causes(&gaps, true), tcp);
        let fix = |gaps: GapReport| {
            let mut out = String::new();
            recommendation(
                &mut out,
                Some(&gaps),
                &GapHints::unadvised(&Repairs::default()),
                "fifo:70",
            )
            .unwrap();
            out
        };
        snapshot!(fix(gaps));
        let all = fix(GapReport { lost_in_outages: 1_342, ..gaps });
        assert_eq!(all, format!("fix: {INTERRUPTED}\n"));
    }

    #[test]
    fn needed_latency_is_shown_whatever_the_fix_is() {
        let latency = |needs_ns| LatencyReport {
            configured_ns: Some(10_000_000),
            loss_target: Some(0.0001),
            recommended_ns: Some(needs_ns),
            curve: curve_of(&[(9, 0.01), (40, 0.0)]),
            ..LatencyReport::unmeasured()
        };
        let none = Repairs::default();
        let reported = |needs_ns, gaps: GapReport| {
            let advice = LatencyAdvice::of(&latency(needs_ns), 10_000, &none);
            let hints = GapHints { advice, ..GapHints::unadvised(&none) };
            let mut out = String::new();
            recommendation(&mut out, Some(&gaps), &hints, "fifo:70").unwrap();
            needed(&mut out, &hints).unwrap();
            out
        };
        let here = GapReport { late_receiver: 9, ..GapReport::default() };
        let local = reported(20_800_000, here);
        assert!(local.contains("20.80ms (0.01 % late or less)"), "{local}");
        assert!(!local.contains("--latency"), "{local}");
        assert_eq!(reported(8_000_000, here).matches("ms").count(), 2, "only the margin");
        let network = GapReport { late_network: 9, ..GapReport::default() };
        assert_eq!(reported(20_800_000, network).matches("20.80ms").count(), 1);
    }

    fn auto() -> Auto {
        Auto {
            before_ns: None,
            first_ns: None,
            last_ns: 8_200_000,
            min_ns: 0,
            max_ns: 0,
            changes: 0,
            increases: 0,
            decreases: 0,
            largest_step_ns: 0,
            limit_ns: None,
        }
    }

    #[test]
    fn real_time_priority_is_advised_only_if_missing() {
        let late = GapReport { late_receiver: 9, ..GapReport::default() };
        let discarded = GapReport { discarded: 9, ..GapReport::default() };
        for all in [late, discarded] {
            let reported = |scheduler| {
                let mut out = String::new();
                recommendation(
                    &mut out,
                    Some(&all),
                    &GapHints::unadvised(&Repairs::default()),
                    scheduler,
                )
                .unwrap();
                out
            };
            let lacking = reported("other");
            assert!(lacking.contains("priority") && !lacking.contains("--periods"), "{lacking}");
            for scheduler in ["fifo:70", "rr:70", "deadline:1ms/2ms/2ms"] {
                let had = reported(scheduler);
                assert!(!had.contains("priority"), "{had}");
                assert!(had.contains("--periods"), "{had}");
            }
        }
    }
}
