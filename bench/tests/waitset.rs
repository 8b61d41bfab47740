//! The measurements of waitsets and of latency, between two processes: this program, and itself again as the
//! other side.
//!
//! `cargo test` runs them for a few milliseconds; `cargo test --release --test waitset -- --usual` prints
//! figures worth looking at.

use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use tombolo_bench::BenchReport as _;
use tombolo_bench::latency;
use tombolo_bench::waitset::{Design, Error, Options, run, serve_peer};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    if has("--peer") {
        let control = std::io::stdin().as_fd().try_clone_to_owned().expect("a control socket");
        serve_peer(&control).expect("a measurement to the end");
        return ExitCode::SUCCESS;
    }
    if let Some(treatment) = arguments.iter().skip_while(|argument| *argument != "--latency-peer").nth(1) {
        latency::serve_peer(treatment, std::io::stdin()).expect("a measurement to the end");
        return ExitCode::SUCCESS;
    }
    measure_latency(if has("--usual") { Duration::from_secs(5) } else { Duration::from_millis(10) });
    let usual = Options::new(["--peer"]);
    let options = if has("--usual") {
        usual
    } else {
        Options { idle: vec![1, 70], slice: Duration::from_millis(4), ..usual }
    };
    let report = run(&options, &mut |_| {}).expect("a measurement");
    assert_eq!(report.rows.len(), options.idle.len() * Design::ALL.len());
    for row in &report.rows {
        assert!(row.wake_ns.rounds > 0 && row.echo_ns.rounds > 0, "{row:?}");
        assert!(row.wake_ns.p50 > 0 && row.wake_ns.p99 >= row.wake_ns.p50, "{row:?}");
    }
    println!("{}", report.table());
    let too_many = Options { idle: vec![1 << 20], ..options };
    assert!(matches!(run(&too_many, &mut |_| {}), Err(Error::TooMany { .. })));
    ExitCode::SUCCESS
}

fn measure_latency(length: Duration) {
    let options = latency::Options { length, peer_arguments: vec!["--latency-peer".into()] };
    let report = latency::run(&options, &mut |_| {}).expect("a measurement");
    assert_eq!(report.rows.len(), 8);
    for row in &report.rows {
        if let Ok(times) = &row.times {
            assert!(times.rounds > 0 && times.p50 > 0 && times.max >= times.p9999, "{row:?}");
        } else {
            assert!(row.treatment.contains("priority"), "{row:?}");
        }
    }
    println!("{}", report.table());
}
