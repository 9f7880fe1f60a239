use tautline_proto::time::LocalTime;

use super::counters::{MachineCounters, ProcessCounters, Ticks, Traffic, context_switches};
use super::record::Sample;
use super::{rates, *};
use crate::page::page;
use crate::report::Meanwhile;

const STAT: &str = "cpu  100 20 30 800 10 4 6 30 5 0\ncpu0 50 10 15 400 5 2 3 15 0 0\n\
cpu1 50 10 15 400 5 2 3 15 0 0\nintr 12345 0 9 0\nctxt 6789\nbtime 1\nprocesses 5\n\
procs_running 3\nprocs_blocked 1\nsoftirq 99 1 2\n";
const VMSTAT: &str = "nr_free_pages 1\npgpgin 64\npgpgout 128\npgfault 1000\npgmajfault 7\n";
const MEMINFO: &str = "MemTotal:        4096 kB\nMemFree: 1 kB\nMemAvailable:    1024 kB\n";
const NET: &str = "Inter-|   Receive                |  Transmit\n face |bytes    packets errs drop \
fifo frame compressed multicast|bytes    packets errs\n    lo:   70      7 0 0 0 0 0 0   70      7 0\n\
  eth0: 1000     10 0 0 0 0 0 0 2000     20 0 0 0 0 0 0\n  eth1:  500      5 0 0 0 0 0 0  100      1 0\n";

#[test]
fn kernel_counters_are_read_as_documented() {
    let machine = MachineCounters::read(STAT, VMSTAT, MEMINFO, NET);
    let ticks =
        Ticks { user: 120, system: 30, irq: 4, softirq: 6, waiting: 10, stolen: 30, all: 1000 };
    let net = Some(Traffic { packets_in: 15, packets_out: 21, bytes_in: 1500, bytes_out: 2100 });
    let lo = Some(Traffic { packets_in: 7, packets_out: 7, bytes_in: 70, bytes_out: 70 });
    let expected = MachineCounters {
        ticks: Some(ticks),
        cores: 2,
        switches: Some(6789),
        interrupts: Some(12345),
        runnable: Some(3),
        blocked: Some(1),
        blocks_read: Some(64),
        blocks_written: Some(128),
        faults: Some(1000),
        major_faults: Some(7),
        memory_used: Some(3072),
        network: net,
        loopback: lo,
    };
    assert_eq!(machine, expected);
}

#[test]
fn missing_kernel_values_are_absent() {
    let hostile =
        ["", "cpu", "cpu \n:\n", "cpu 1 2 3", "intr\nctxt x\n", "a:b:c\n : 1 2\n", ")", "1 (x"];
    for text in hostile {
        let machine = MachineCounters::read(text, text, text, text);
        assert_eq!((machine.ticks, machine.switches, machine.memory_used), (None, None, None));
        assert_eq!(ProcessCounters::read(text), None);
        let nothing = rates::machine(&machine, &machine, Span::ZERO);
        assert!(nothing[0].is_none() && nothing[6].is_none(), "{text}");
    }
    let maximum = format!("cpu {}\n", [u64::MAX; 10].map(|n| n.to_string()).join(" "));
    assert_eq!(MachineCounters::read(&maximum, "", "", "").ticks.unwrap().all, u64::MAX);
}

#[test]
fn a_process_is_read_whatever_it_is_called() {
    let stat = "42 (a) b (c) R 1 42 42 0 -1 4194304 500 0 3 0 250 50 0 0 20 0 4 0 9 1000 256 1\n";
    let process = ProcessCounters::read(stat).unwrap();
    assert_eq!(ProcessCounters::name(stat), Some("a) b (c"));
    assert_eq!((process.user, process.system, process.threads), (250, 50, 4));
    assert_eq!((process.faults, process.major_faults, process.resident), (500, 3, 256));
}

#[test]
fn context_switches_of_a_thread_are_both_kinds() {
    let status = "Name:\ttaut\nThreads:\t4\nvoluntary_ctxt_switches:\t150\n\
                  nonvoluntary_ctxt_switches:\t7\n";
    assert_eq!(context_switches(status), Some(157));
    for cut in
        ["", "Name:\ttaut\n", "voluntary_ctxt_switches:\t150\n", "voluntary_ctxt_switches:\n"]
    {
        assert_eq!(context_switches(cut), None, "{cut}");
    }
}

fn values<'a>(all: &'a [Meanwhile], key: &str) -> &'a [(i64, f64)] {
    &all.iter().find(|series| series.key == key).unwrap_or_else(|| panic!("{key}")).values
}

fn sample(at: i64, user: u64, switches: u64, process: Option<u64>) -> Sample {
    let ticks = Ticks { user, all: 200 * at as u64, ..Ticks::default() };
    let machine = MachineCounters {
        ticks: Some(ticks),
        cores: 2,
        switches: Some(switches),
        interrupts: Some(3 * switches),
        memory_used: Some(2048),
        ..MachineCounters::default()
    };
    let process =
        process.map(|user| ProcessCounters { user, resident: 512, ..ProcessCounters::default() });
    let at = LocalTime::ZERO + Span::from_secs(at);
    Sample { at, machine, processes: [process].into() }
}

fn record() -> Record {
    let samples = vec![
        sample(10, 0, 0, Some(0)),
        sample(11, 50, 1000, Some(25)),
        sample(13, 150, 2000, Some(75)),
        sample(14, 160, 2000, None),
    ];
    let (names, pids) = (vec!["taut".to_owned()], vec![7]);
    Record { samples, names, pids, cost: Span::from_millis(40) }
}

#[test]
fn rates_use_actual_intervals_and_join_the_measurement() {
    let record = record();
    let begin = LocalTime::ZERO + Span::from_millis(10_500);
    let machine = record.machine(begin);
    let seconds = |at: &[f64]| at.iter().map(|at| (at * 1e9) as i64).collect::<Vec<_>>();
    let user = values(&machine, "user_percent");
    assert_eq!(user.iter().map(|(at, _)| *at).collect::<Vec<_>>(), seconds(&[0.5, 2.5, 3.5]));
    assert_eq!(user.iter().map(|(_, share)| *share).collect::<Vec<_>>(), [25.0, 25.0, 5.0]);
    let switches = values(&machine, "switches_per_s");
    assert_eq!(switches.iter().map(|(_, rate)| *rate).collect::<Vec<_>>(), [1000.0, 500.0, 0.0]);
    assert!(machine.iter().all(|series| series.key != "packets_in_per_s"), "not said, not made up");
    let process = record.process(0, begin);
    let user = values(&process, "user_core_percent");
    assert_eq!(user.iter().map(|(_, share)| *share).collect::<Vec<_>>(), [25.0, 25.0]);
}

fn places(page: &str, title: &str, colour: &str) -> Vec<(f64, f64)> {
    let panel = page.split(&format!(">{title}</text>")).nth(1);
    let line = panel.and_then(|panel| panel.split(&format!("<path class=\"{colour}\" ")).nth(1));
    let path = line.and_then(|line| line.split('"').nth(3)).unwrap_or_else(|| panic!("{title}"));
    let letters = path.match_indices(|letter: char| letter.is_ascii_uppercase());
    let mut places: Vec<(f64, f64)> = Vec::new();
    for (at, letter) in letters {
        let numbers = path[at + 1..].split(|letter: char| letter.is_ascii_uppercase()).next();
        let numbers: Vec<f64> =
            numbers.unwrap().split(' ').map(|one| one.parse().unwrap()).collect();
        let (x, y) = places.last().copied().unwrap_or_default();
        places.push(match (letter, &numbers[..]) {
            ("H", [x]) => (*x, y),
            ("V", [y]) => (x, *y),
            (_, [x, y]) => (*x, *y),
            _ => panic!("{path}"),
        });
    }
    places
}

#[test]
fn page_draws_cpu_interrupts_and_switches_over_time() {
    let record = record();
    let mut report = LabReport::asking("resources");
    report.rows = vec![record.machine_row(), record.process_row(0).unwrap()];
    let page = page(&report);
    let is_near = |one: f64, other: f64| (one - other).abs() < 0.01;
    // Maximum, half and zero.
    for title in ["interrupts, 1/s", "context switches, 1/s"] {
        let [max, half, none] = places(&page, title, "s7")[..] else { panic!("{title}") };
        assert!(is_near((none.1 - half.1) / (none.1 - max.1), 0.5), "{title}");
        assert!(is_near((half.0 - max.0) / (none.0 - max.0), 2.0 / 3.0), "{title}");
    }
    let all = "processor, % of all cores";
    let [one, same, low] = places(&page, all, "s7")[..] else { panic!("user") };
    let zero = places(&page, all, "s8")[0].1;
    assert!(one.1 == same.1 && is_near((zero - low.1) / (zero - one.1), 0.2), "{one:?} {low:?}");
    let [one, same] = places(&page, "processor, % of a core", "s7")[..] else { panic!("process") };
    assert_eq!(one.1, same.1);
    for name in ["user", "system", "irq", "softirq"] {
        assert!(page.contains(&format!(">— {name}</text>")), "{name}");
    }
}

#[test]
fn ended_process_is_reported_and_keeps_its_output() {
    let record = record();
    assert_eq!(record.notes(), ["process 7 ended while it was watched"]);
    let row = record.process_row(0).unwrap();
    assert_eq!(row.name, "process 7 (taut)");
    assert_eq!(row.figures[0].value, 25.0);
    let cost = record.machine_row().figures.last().unwrap().value.as_f64().unwrap();
    assert!((cost - 1.0).abs() < 1e-9, "{cost}");
    assert!(record.process_row(1).is_none());
}

#[test]
fn machine_and_process_are_sampled_and_missing_pid_invalid() {
    let options = SamplerOptions {
        interval: Span::from_millis(20),
        duration: Span::from_millis(100),
        pids: vec![std::process::id(), u32::MAX],
    };
    let report = measure(&options, &Stop::default()).unwrap();
    let [machine, own, none] = &report.rows[..] else { panic!("{report}") };
    assert!(values(&machine.meanwhile, "switches_per_s").len() >= 2, "{report}");
    assert!(values(&machine.meanwhile, "memory_used_mib")[0].1 > 1.0);
    assert!(values(&own.meanwhile, "threads")[0].1 >= 2.0, "this and the sampler's");
    assert!(none.invalid.as_ref().unwrap().contains("pgrep"), "{report}");
}
