use tautline_proto::time::Span;

use crate::report::ReportRow;
use crate::report::text::share;

const SILENT: &str = "silent";

/// Effect of each noise, then overhead per packet length, shortest last.
pub(super) fn sentences(rows: &[ReportRow]) -> Vec<String> {
    let is_of_stream = |row: &&ReportRow| row.invalid.is_none() && row.missed.is_some();
    let reported = |row: &&ReportRow| row.name == SILENT || row.name.starts_with("silent, ");
    let silent = rows.iter().filter(is_of_stream).find(reported);
    let noisy = rows.iter().filter(is_of_stream);
    let noisy = noisy.filter(|row| !reported(row) && !row.name.starts_with("packets of "));
    let changed = silent.into_iter().flat_map(|silent| {
        let noisy = noisy.clone();
        noisy.filter_map(move |row| changed(silent, row))
    });
    changed.chain(overhead(rows)).collect()
}

fn changed(silent: &ReportRow, noisy: &ReportRow) -> Option<String> {
    let middle = |row: &ReportRow| row.measured.as_ref()?.p50_ns;
    let (quiet, loud) = (middle(silent)?, middle(noisy)?);
    let unsure = [silent, noisy].iter().filter_map(|row| row.uncertainty).max();
    let unsure = unsure.filter(|unsure| *unsure > Span::ZERO);
    let unsure = unsure.map_or(String::new(), |unsure| format!(" (each ± {unsure})"));
    let missed = |row: &ReportRow| {
        row.missed.map_or(String::new(), |missed| format!("{} of {}", missed.missed, missed.due))
    };
    let more = loud.saturating_sub(quiet);
    let way = if more < 0 { "shorter" } else { "longer" };
    Some(format!(
        "with {}: the median latency was {} {way} than without{unsure}, and {} packets were \
         missed (without: {})",
        noisy.name,
        Span::from_nanos(more.saturating_abs()),
        missed(noisy),
        missed(silent)
    ))
}

fn overhead(rows: &[ReportRow]) -> Option<String> {
    let reported = |row: &ReportRow| {
        let figure = |key| row.figures.iter().find(|one| one.key == key)?.value.as_f64();
        let [rtp, udp, ip, ethernet, sound] =
            ["rtp_bytes", "udp_bytes", "ip_bytes", "ethernet_bytes", "payload_bytes"].map(figure);
        let heads = [(rtp, sound), (udp, rtp), (ip, udp), (ethernet, ip)];
        let [rtp, udp, ip, ethernet] = heads.map(|(all, inner)| Some(all? - inner?));
        Some(format!(
            "{} {} (RTP {}, UDP {}, IP {}, Ethernet {})",
            row.name.trim_start_matches("packets of ").split(',').next()?,
            share(figure("overhead_share")?),
            rtp?,
            udp?,
            ip?,
            ethernet?
        ))
    };
    let all: Vec<String> = rows.iter().filter_map(reported).collect();
    (!all.is_empty()).then(|| {
        format!(
            "overhead of a frame, by packet length, with the bytes of each header: {}",
            all.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::statistics::{Missed, Series};
    use tautline_proto::time::LocalTime;

    fn stream(name: &str, latency: i64, missed: u64) -> ReportRow {
        let mut series = Series::with_room(100);
        for at in 0..100 {
            series.push(LocalTime::ZERO + Span::from_millis(at), Span::from_micros(latency));
        }
        let mut row = ReportRow::named(name).with(&series);
        row.missed = Some(Missed::of(missed, 100));
        row
    }

    #[test]
    fn effects_of_noise_and_headers_are_explained() {
        let mut sizes = ReportRow::named("packets of 1ms, L16: bytes");
        let bytes = [192, 204, 212, 232, 250];
        for (key, bytes) in
            ["payload_bytes", "rtp_bytes", "udp_bytes", "ip_bytes", "ethernet_bytes"]
                .into_iter()
                .zip(bytes)
        {
            sizes.add(key, key, bytes);
        }
        sizes.add("overhead_share", "overhead", 0.232);
        let rows = [stream("silent", 5000, 0), stream("bulk TCP", 5020, 3), sizes];
        let reported = sentences(&rows);
        let tcp = "with bulk TCP: the median latency was 20us longer than without, and 3 of 100 packets were \
                   missed (without: 0 of 100)";
        let heads = "overhead of a frame, by packet length, with the bytes of each header: 1ms 23 % (RTP 12, UDP 8, \
                     IP 20, Ethernet 18)";
        assert_eq!(reported, [tcp, heads]);
        let shorter = sentences(&[stream("silent", 5000, 0), stream("bulk TCP", 4990, 0)]);
        snapshot!(shorter[0]);
        // Without silence, no effect is known.
        assert_eq!(sentences(&rows[1..2]), [""; 0]);
    }
}
