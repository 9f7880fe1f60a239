//! A report's page, and escaping of foreign text.

mod simulated;
mod well_formed;

use tautline_lab::page::{charts as charts_alone, page};
use tautline_lab::report::{Events, LabReport, Meanwhile, Points, ReportRow, WorstPart};

use simulated::{hostile, ladder, stages, stream};
use well_formed::read;

fn charts(page: &str) -> Vec<&str> {
    page.split("<svg").skip(1).map(|chart| chart.split("</svg>").next().unwrap_or("")).collect()
}

fn count(page: &str, part: &str) -> usize {
    page.matches(part).count()
}

#[test]
fn every_page_is_well_formed_and_self_contained() {
    for report in [ladder(), stages(), hostile(), LabReport::of("nothing", "is there anything?")] {
        let page = page(&report);
        let seen = read(&page).unwrap_or_else(|wrong| panic!("{}: {wrong}", report.experiment));
        for name in ["script", "link", "img", "iframe", "object", "use", "image"] {
            assert!(!seen.elements.iter().any(|element| element == name), "{name}");
        }
        assert!(!page.contains("url(") && !page.contains("@import"), "{}", report.experiment);
        assert_eq!(count(&page, "http"), count(&page, "xmlns=\"http://www.w3.org/2000/svg\""));
        assert!(page.contains("prefers-color-scheme:dark") && page.contains("width=device-width"));
    }
}

#[test]
fn charts_alone_stand_with_their_own_colours() {
    for report in [ladder(), stages(), hostile(), LabReport::of("nothing", "is there anything?")] {
        let svg = charts_alone(&report);
        let seen = read(&format!("<!DOCTYPE html>{svg}"));
        let seen = seen.unwrap_or_else(|wrong| panic!("{}: {wrong}", report.experiment));
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width="), "{svg}");
        assert_eq!((count(&svg, "class="), count(&svg, "var(")), (0, 0), "{}", report.experiment);
        assert!(!seen.elements.iter().any(|element| element == "style" || element == "script"));
        assert!(seen.text.contains(&*report.experiment), "{}", seen.text);
        let drawn = report.rows.iter().any(|row| row.invalid.is_none() && row.measured.is_some());
        assert_eq!(count(&svg, "role=\"img\"") > 0, drawn, "{}", report.experiment);
    }
    assert!(charts_alone(&stages()).contains(">wire<"));
}

#[test]
fn foreign_text_is_escaped_in_the_page() {
    let page = page(&hostile());
    assert_eq!(count(&page, "<script"), 0);
    assert_eq!(count(&page, "</title>"), 1);
    let seen = read(&page).unwrap();
    assert!(seen.text.contains("<script>alert(\"1\")</script>"), "it is shown as it is");
    assert!(!page.contains('\u{202e}'), "nothing turns the writing round");
}

#[test]
fn full_row_has_every_chart_with_text_for_screen_readers() {
    let page = page(&stages());
    let all = [
        "Stage by stage",
        "Second by second",
        "How often",
        "The tail",
        "Every value",
        "The worst, magnified",
        "Periods",
        "The worst",
    ];
    all.iter().for_each(|title| assert!(page.contains(title), "{title}"));
    let charts = charts(&page);
    assert_eq!(charts.len(), 7, "the middle of the distribution is one nanosecond wide");
    for chart in charts {
        assert!(chart.contains("role=\"img\" aria-label=\""), "{}", &chart[..200]);
        assert!(chart.contains("viewBox=\"0 0 1680 "), "{}", &chart[..200]);
        // "device's" has an escaped apostrophe.
        assert!(!chart.replace("&#39;", "'").contains('#'), "colours are the page's");
    }
    assert!(page.contains("strongest: 40.0 ms"), "what swings every 40 ms is named");
}

#[test]
fn figures_of_the_page_are_those_of_the_text() {
    let report = ladder();
    let (page, text) = (read(&page(&report)).unwrap().text, report.to_string());
    let row = text.lines().find(|line| line.starts_with("test 10")).unwrap();
    let cells = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
    let mut cells = cells.peekable();
    assert!(cells.peek().is_some());
    cells.for_each(|cell| assert!(page.contains(cell), "{cell}"));
}

#[test]
fn invalid_row_has_a_reason_and_no_chart() {
    let mut report = LabReport::of("kernel", "how long?");
    report.rows =
        vec![ReportRow::invalid("ptime 20 ms", "no packet came; is something else sending?")];
    let page = page(&report);
    assert!(
        read(&page).unwrap().text.contains("invalid: no packet came; is something else sending?")
    );
    assert_eq!(charts(&page).len(), 0);
    assert!(!page.contains("<details"));
}

#[test]
fn without_data_there_is_no_chart() {
    let mut report = LabReport::of("resources", "what does it cost?");
    let mut row = ReportRow::named("one");
    row.add("cpu_percent", "processor, % of a core", 3.5);
    report.rows = vec![row];
    let page = page(&report);
    assert_eq!(charts(&page).len(), 0);
    assert!(page.contains("processor, % of a core") && page.contains("3.500"));
}

#[test]
fn of_many_rows_the_worst_is_open() {
    let page = page(&ladder());
    assert_eq!(count(&page, "<details>"), 9);
    assert_eq!(count(&page, "<details open=\"open\">"), 1);
    assert!(page.contains("Row by row") && page.contains("Measured minus configured"));
    assert!(page.contains("thesis, table 3.4"));
}

#[test]
fn a_chart_of_every_packet_stays_small_however_many_there_are() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut row = stream(2_000, 5_000.0, 1);
    row.points = (0..9)
        .map(|line| Points {
            name: format!("stage {line}"),
            values: (0..25_000)
                .map(|packet| (packet * 1_000_000, random.i64(0..5_000_000)))
                .collect(),
        })
        .collect();
    let mut report = LabReport::of("stages", "where does the time go?");
    report.rows = vec![row];
    let page = page(&report);
    read(&page).unwrap();
    for chart in charts(&page) {
        assert!(chart.len() < 400_000, "{} bytes", chart.len());
    }
}

#[test]
fn the_worst_stand_with_all_their_stages_in_the_order_of_travel() {
    let mut row = stream(2_000, 5_000.0, 1);
    let part = |name: &'static str, length_ns| WorstPart { name: name.into(), length_ns };
    row.worst[0].stages = vec![part("buffer", 2_500_000), part("wire", 120_000)];
    let others = row.worst.len() - 1;
    let mut report = LabReport::of("stages", "where does the time go?");
    report.rows = vec![row];
    let page = page(&report);
    assert!(page.contains("<th>value</th><th>wire</th><th>buffer</th></tr>"), "and no reasons");
    assert_eq!(count(&page, "<td></td><td></td></tr>"), others, "of which no stage is known");
}

fn with_xruns(at_ms: &[i64], unreported: u64) -> String {
    let mut row = stream(5_000, 5_000.0, 1);
    row.meanwhile.clear();
    let values = at_ms.iter().map(|at| (at * 1_000_000, 1)).collect();
    row.events = vec![Events {
        key: "xruns".into(),
        words: "xruns".into(),
        values,
        without_time: unreported,
    }];
    let mut report = LabReport::of("recv", "did every packet sound when it was due?");
    report.rows = vec![row];
    page(&report)
}

#[test]
fn machine_values_beyond_the_chart_limit_are_not_drawn() {
    let mut row = stream(5_000, 5_000.0, 1);
    let values: Vec<_> = (0..5).map(|second| (second * 1_000_000_000, 7.0)).collect();
    let seen = |words: &'static str, drawn| Meanwhile {
        drawn,
        ..Meanwhile::drawn("key", words, values.clone())
    };
    row.meanwhile = vec![seen("run queue, threads", true), seen("page faults, 1/s", false)];
    let mut report = LabReport::of("stages", "where does the time go?");
    report.rows = vec![row];
    let page = page(&report);
    assert!(page.contains("run queue, threads") && !page.contains("page faults"));
}

fn bad_lines(page: &str, title: &str) -> usize {
    let chart = page.split("<figure>").find(|figure| figure.contains(&format!(">{title}<")));
    count(chart.unwrap_or_else(|| panic!("{title}: {page}")), "class=\"s6\"")
}

#[test]
fn each_xrun_is_marked_in_time_charts_and_listed() {
    let all = with_xruns(&[-700, 1_234, 1_240, 3_210, 9_000], 0);
    assert_eq!(bad_lines(&all, "Second by second"), 3 + 3);
    assert_eq!(bad_lines(&all, "Every value"), 3);
    assert!(all.contains("; xruns are marked, each where it was</small>"), "{all}");
    assert!(all.contains("each line ends in its name; xruns are marked</small>"));
    assert!(all.contains("<h3>When: xruns</h3>"));
    for at in ["-0.700 s", "1.234 s", "1.240 s", "3.210 s", "9.000 s"] {
        assert!(all.contains(&format!("<td>{at}</td><td>1</td>")), "{at}");
    }
    let none = with_xruns(&[-700, 9_000], 0);
    for title in ["Second by second", "Every value"] {
        assert_eq!(bad_lines(&none, title), 0, "{title}: of another time");
    }
    assert!(!none.contains("xruns are marked"));
}

#[test]
fn first_xruns_are_listed_and_all_are_counted() {
    let page = with_xruns(&(0..50).map(|at| at * 100).collect::<Vec<_>>(), 7);
    read(&page).unwrap();
    assert_eq!(count(&page, "</td><td>1</td></tr>"), 20);
    assert!(page.contains("<p class=\"aside\">and 37 more</p>"), "{page}");
    assert_eq!(bad_lines(&page, "Every value"), 50);
}

#[test]
fn each_machine_of_a_stream_has_a_chart_over_time() {
    let mut row = stream(5_000, 5_000.0, 1);
    let values: Vec<_> = (0..50_000).map(|at| (at * 100_000, f64::from(at as i32 % 97))).collect();
    row.meanwhile = ["sender_", "receiver_"]
        .iter()
        .flat_map(|end| {
            ["user_percent", "interrupts_per_s", "switches_per_s"].map(|key| format!("{end}{key}"))
        })
        .map(|key| Meanwhile {
            drawn: false,
            ..Meanwhile::drawn(key, "words, 1/s", values.clone())
        })
        .collect();
    let mut report = LabReport::of("stages", "where does the time go?");
    report.rows = vec![row];
    let page = page(&report);
    read(&page).unwrap();
    for title in ["Sender&#39;s machine over time", "Receiver&#39;s machine over time"] {
        let figure = page.split("<figure>").find(|figure| figure.contains(title)).expect(title);
        for panel in ["processor, % of all cores", "interrupts, 1/s", "context switches, 1/s"] {
            assert_eq!(count(figure, &format!(">{panel}<")), 1, "{panel}");
        }
        assert_eq!(count(figure, "class=\"s7\""), 3);
        assert!(figure.len() < 120_000, "{} bytes", figure.len());
    }
    assert_eq!(count(&page, ">Over time<"), 0);
}

fn widths(figure: &str, colour: &str) -> Vec<f64> {
    let bar = format!("<path class=\"{colour}\" ");
    let bars = figure.split(&bar).skip(1);
    let width = |bar: &str| {
        let path = bar.split("d=\"M").nth(1)?;
        let [from, to] = [path.split(' ').next()?, path.split(['H', 'V']).nth(1)?];
        Some(to.parse::<f64>().ok()? - from.parse::<f64>().ok()?)
    };
    bars.map(|bar| width(bar).unwrap_or_else(|| panic!("{bar}"))).collect()
}

#[test]
fn parts_of_traffic_are_bars_as_long_as_their_shares() {
    let row = |name: &str, packets: f64, bytes: f64| {
        let mut row = ReportRow::named(name);
        row.add("packets_share", "of packets", packets);
        row.add("bytes_share", "of bytes", bytes);
        row
    };
    let mut report = LabReport::of("network", "what does it carry?");
    report.rows = vec![
        row("ambient: here, eth0", 1.0, 1.0),
        row("ambient: here, eth0: RTP", 0.25, 0.8),
        row("ambient: here, eth0: mDNS", 0.75, 0.2),
        row("ambient: here, eth0, by address: IPv4 multicast", 1.0, 1.0),
    ];
    let page = page(&report);
    read(&page).unwrap();
    let figures: Vec<_> = page.split("<figure>").skip(1).collect();
    let [figure] = figures[..] else { panic!("{page}") };
    for name in ["RTP", "mDNS", "25.0 % | 80.0 %", "75.0 % | 20.0 %"] {
        assert!(figure.contains(&format!(">{name}</text>")), "{name}");
    }
    for (colour, ratio) in [("f7", 3.0), ("f8", 0.25)] {
        let [rtp, mdns] = widths(figure, colour)[..] else { panic!("{figure}") };
        assert!((mdns / rtp / ratio - 1.0).abs() < 0.02, "{rtp} {mdns}");
    }
    assert!(charts_alone(&report).contains("eth0"));
}
