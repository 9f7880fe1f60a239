//! Optional report of an instance: one line of JSON.

use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use tautline_engine::offload::attendant::Standing as Seen;
use tautline_engine::offload::offloaded::Which;
use tautline_proto::offload::returns::{Cause, Damage, Replacement};

use crate::client_thread::standing::ClientStanding;
use crate::options::OffloadOptions;
use crate::record::RunRecord;
use crate::shelf::ShelfOffer;
use crate::twin::{TwinSpan, TwinVerdict};

pub(crate) struct RunReported<'a> {
    pub(crate) offer: &'a ShelfOffer,
    pub(crate) options: &'a OffloadOptions,
    pub(crate) rate: u32,
    pub(crate) standing: &'a ClientStanding,
    pub(crate) seen: Seen,
    pub(crate) rendered: bool,
    pub(crate) verdict: Option<TwinVerdict>,
}

impl RunReported<'_> {
    pub(crate) fn concealed(&self) -> u64 {
        self.seen.counters.concealed
    }

    pub(crate) fn dirty(&self) -> u64 {
        let watch = self.standing.watch();
        let dirty = watch.record.damage.iter().filter(|damage| damage.cause == Cause::Dirty);
        dirty.map(|damage| u64::from(damage.frames)).sum()
    }

    pub(crate) fn is_complete(&self) -> bool {
        is_whole(&self.seen, &self.standing.watch().record)
    }

    pub(crate) fn damage_sentence(&self) -> String {
        let (frames, replaced) = (self.seen.counters.frames, self.concealed());
        let wrong = match self.dirty() {
            0 => String::new(),
            dirty => format!(
                "; {dirty} frames may differ until the host restarts the plugin, which missed a part of its input"
            ),
        };
        format!("{replaced} of {frames} frames replaced{wrong}")
    }

    pub(crate) fn json(&self) -> Value {
        let said = self.standing.notes();
        let opened = Which::ALL.map(|which| self.standing.opened(which));
        let watch = self.standing.watch();
        let record = &watch.record;
        let micros = |share| record.left_but(share).map(|left| left.as_micros_f64());
        let counters = self.seen.counters;
        json!({
            "plugin": self.offer.label,
            "worker": self.offer.worker,
            "spare": self.options.spare,
            "rate": self.rate,
            "blocks": counters.runs,
            "frames": counters.frames,
            "delay_frames": self.seen.delay,
            "latency_frames": self.seen.latency,
            "rendered": self.rendered,
            "complete": is_whole(&self.seen, record),
            "stood_in_frames": self.concealed(),
            "damage": record.damage.iter().map(line).collect::<Vec<_>>(),
            "damage_not_listed": record.unlisted + counters.damage_overflow,
            "slack": {
                "answered": record.answered,
                "unanswered": record.unanswered,
                "p50_us": micros(0.5),
                "p99_us": micros(0.01),
            },
            "waits": counters.waits,
            "waited_us": counters.waited.as_micros_f64(),
            "streams_opened": { "worker": opened[0], "spare": opened[1] },
            "compared": self.verdict.map(|whole| {
                let mut compared = verdict(whole);
                compared["spans"] = record.spans.iter().map(span).collect();
                compared
            }),
            "said": said,
        })
    }

    /// Other instances and hosts share the file.
    pub(crate) fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(format!("{}\n", self.json()).as_bytes())
    }
}

fn is_whole(seen: &Seen, record: &RunRecord) -> bool {
    let unreported = record.unlisted + seen.counters.damage_overflow;
    seen.counters.concealed == 0 && record.damage.is_empty() && unreported == 0
}

fn line(damage: &Damage) -> Value {
    json!({
        "epoch": damage.epoch,
        "from": damage.from,
        "frames": damage.frames,
        "cause": match damage.cause {
            Cause::Late => "late",
            Cause::Lost => "lost",
            Cause::Dirty => "dirty",
            Cause::Grown => "grown",
            Cause::NoWorker => "no worker",
            Cause::Faded => "faded",
        },
        "replacement": match damage.replacement {
            _ if damage.cause == Cause::Dirty => Value::Null,
            Replacement::Matched => "matched".into(),
            Replacement::Dry => "dry".into(),
            Replacement::Conceal => "conceal".into(),
            Replacement::LastGood => "last-good".into(),
        },
    })
}

fn verdict(verdict: TwinVerdict) -> Value {
    json!({
        "samples": verdict.compared,
        "equal": verdict.equal,
        "passed_over": verdict.concealed,
        "bit_identical": verdict.compared > 0 && verdict.equal == verdict.compared,
        "first_difference": verdict.first_difference,
        "largest_difference": verdict.largest_difference,
        "residual_db": verdict.residual_db(),
    })
}

fn span(span: &TwinSpan) -> Value {
    let TwinSpan { frames: (from, until), verdict } = span;
    json!({
        "from": from,
        "until": until,
        "samples": verdict.compared,
        "equal": verdict.equal,
        "passed_over": verdict.concealed,
        "residual_db": verdict.residual_db(),
    })
}
