//! Cost of coherent pages between two ranks, one on each node, compared with a bare fault, a round trip and
//! the copy of a page there.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tombolo::{Channel, ChannelOptions, Domain};
use tombolo_pages::{Consistency, Pages, PagesOptions};
use tombolo_platform::Deadline;
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::memory::PagedMemory;

use super::print_figure;
use crate::Error;

/// Timeout for the other side.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Address of the pages for bare faults.
const BARE_ADDRESS: usize = 0x2000_0000_0000;
/// Hold time of pages in the alternation with a hold.
const HOLD: Duration = Duration::from_micros(100);

/// Computation time after each word that a rank writes in a page written by both.
const PER_WORD: Duration = Duration::from_micros(10);

/// Time without a message after which the other side is asleep.
const IDLE_TIME: Duration = Duration::from_millis(1);
/// Length of a page with its message header.
const MESSAGE_BYTES: usize = 4096 + 16;

/// Order of rank 0 to rank 1.
#[derive(Clone, Copy)]
enum Order {
    Read(u32),
    Write(u32),
    /// Alternate writes to a page, this many times.
    Turns(u32),
    /// Answer messages.
    Echo,
    /// Answer with the length of a page message, on the second channel.
    EchoPage,
    End,
}

impl Order {
    fn to_bytes(self) -> [u8; 5] {
        let (kind, number) = match self {
            Order::Read(page) => (1, page),
            Order::Write(page) => (2, page),
            Order::Turns(turns) => (3, turns),
            Order::Echo => (4, 0),
            Order::End => (5, 0),
            Order::EchoPage => (6, 0),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [kind, a, b, c, d]
    }

    fn of(bytes: &[u8]) -> Option<Order> {
        let [kind, number @ ..] = <[u8; 5]>::try_from(bytes).ok()?;
        let number = u32::from_le_bytes(number);
        Some(match kind {
            1 => Order::Read(number),
            2 => Order::Write(number),
            3 => Order::Turns(number),
            4 => Order::Echo,
            5 => Order::End,
            6 => Order::EchoPage,
            _ => return None,
        })
    }
}

/// Measures together with the other rank of the job, which runs the same program.
pub(super) fn run(rounds: u32) -> Result<(), Error> {
    let domain = Domain::attach()?.with_timeout(TIMEOUT);
    let job = domain.job()?;
    let peer = 1 - job.rank().min(1);
    let mut channel = job.channel_to(peer)?;
    let mut long =
        long_channel(&domain, &job.name_between("long", peer).map_err(tombolo::Error::from)?, job.rank())?;
    for (name, hold) in [("", Duration::ZERO), ("_held", HOLD)] {
        let options = PagesOptions::new(format!("bench{name}")).block_pages(1).ahead(0).hold(hold);
        let bytes = u64::from(2 * rounds + 2) * 4096;
        let pages = options.open(&domain, &job, bytes).map_err(Error::of_figures)?;
        if job.rank() == 0 {
            if hold.is_zero() {
                measure_bare(&mut channel, &mut long, rounds)?;
                faults(&mut channel, &pages, rounds)?;
            }
            turns(&mut channel, &pages, rounds, name)?;
            send_order(&mut channel, Order::End)?;
        } else {
            execute(&mut channel, &mut long, &pages)?;
        }
        pages.close(TIMEOUT).map_err(Error::of_figures)?;
    }
    for (name, consistency) in
        [("interleaved", Consistency::Sequential), ("interleaved_released", Consistency::Release)]
    {
        let options = PagesOptions::new(name).consistency(consistency).ahead(0);
        let pages = options.open(&domain, &job, 4 * 4096).map_err(Error::of_figures)?;
        interleaved(&pages, job.rank(), rounds, name)?;
        pages.close(TIMEOUT).map_err(Error::of_figures)?;
    }
    Ok(())
}

/// Measures false sharing: both ranks compute every second word of a page at the same time, meet, and read
/// all of it.
fn interleaved(pages: &Pages, rank: u32, rounds: u32, name: &str) -> Result<(), Error> {
    let words = &pages.memory().words()[..pages.page_bytes() / 8];
    let meet = || pages.barrier(TIMEOUT).map_err(Error::of_figures);
    let mut times_ns = Vec::new();
    for round in 1..=u64::from(rounds.min(100)) {
        meet()?;
        let began = Instant::now();
        for word in words.iter().skip(rank as usize).step_by(2) {
            word.store(round, Ordering::Relaxed);
            let computes = Instant::now();
            while computes.elapsed() < PER_WORD {
                std::hint::spin_loop();
            }
        }
        meet()?;
        let expected = round * words.len() as u64;
        let sum: u64 = words.iter().map(|word| word.load(Ordering::Relaxed)).sum();
        if sum != expected {
            return Err(Error::Corrupt { message: round });
        }
        times_ns.push(began.elapsed().as_nanos() as u64);
    }
    if rank == 0 {
        let faults = f64::from(pages.counts(0).faults()) / times_ns.len().max(1) as f64;
        print_figure(&format!("{name}_faults"), faults);
        print_times(name, times_ns);
    }
    Ok(())
}

/// Opens a channel with the options that coherent pages use.
fn long_channel(domain: &Domain, name: &str, rank: u32) -> Result<Channel, Error> {
    let options = ChannelOptions::default().slot_bytes(128)?.slots(512)?;
    Ok(if rank == 0 {
        options.export(domain, name)?.within(TIMEOUT).accept()?
    } else {
        options.connect(domain, name)?
    })
}

fn send_order(channel: &mut Channel, order: Order) -> Result<(), Error> {
    channel.send(&order.to_bytes())?;
    let mut answer = Vec::new();
    channel.recv_into(&mut answer)?;
    Ok(())
}

fn execute(channel: &mut Channel, long: &mut Channel, pages: &Pages) -> Result<(), Error> {
    let mut message = Vec::new();
    loop {
        let length_bytes = channel.recv_into(&mut message)?;
        let order = Order::of(&message).ok_or(Error::Unexpected { length_bytes })?;
        match order {
            Order::Read(page) => {
                std::hint::black_box(read(pages, page));
            }
            Order::Write(page) => write(pages, page),
            Order::Turns(turns) => {
                channel.send(&message)?;
                take_turns(pages, turns, 1)?;
            }
            Order::Echo | Order::End => {}
            Order::EchoPage => {
                long.send(&[7; MESSAGE_BYTES])?;
                continue;
            }
        }
        channel.send(&message)?;
        if matches!(order, Order::End) {
            return Ok(());
        }
    }
}

fn word(pages: &Pages, page: u32) -> &std::sync::atomic::AtomicU64 {
    &pages.memory().words()[page as usize * pages.page_bytes() / 8]
}

fn read(pages: &Pages, page: u32) -> u64 {
    word(pages, page).load(Ordering::SeqCst)
}

fn write(pages: &Pages, page: u32) {
    word(pages, page).store(page.into(), Ordering::SeqCst);
}

/// Prints the median and the 99th percentile.
fn print_times(name: &str, mut times_ns: Vec<u64>) {
    times_ns.sort_unstable();
    let at = |percent: usize| times_ns.get(times_ns.len() * percent / 100).copied().unwrap_or(0) as f64;
    print_figure(&format!("{name}_p50_ns"), at(50));
    print_figure(&format!("{name}_p99_ns"), at(99));
}

fn time_ns(run: impl FnOnce()) -> u64 {
    let began = Instant::now();
    run();
    began.elapsed().as_nanos() as u64
}

/// Measures a fault that a second thread of the same program resolves, a round trip, and a copy.
fn measure_bare(channel: &mut Channel, long: &mut Channel, rounds: u32) -> Result<(), Error> {
    let paged = PagedMemory::create(BARE_ADDRESS, rounds).map_err(Error::of_figures)?;
    let (memory, words) = (paged.memory(), paged.page_bytes() / 8);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serve = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let soon = Some(Deadline::after(Duration::from_millis(10)));
                poll(&[(paged.as_fd(), Interest::Read)], soon)?;
                while let Some(fault) = paged.next_fault()? {
                    paged.map(fault.page, false)?;
                }
            }
            Ok::<(), Error>(())
        });
        let access = |page: u32| {
            time_ns(|| {
                std::hint::black_box(memory.load_le(page as usize * words, Ordering::Relaxed));
            })
        };
        print_times("bare_fault", (0..rounds).map(access).collect());
        done.store(true, Ordering::Relaxed);
        serve.join().unwrap_or(Ok(()))
    })?;
    let mut times_ns = Vec::new();
    for _ in 0..rounds {
        let began = Instant::now();
        send_order(channel, Order::Echo)?;
        times_ns.push(began.elapsed().as_nanos() as u64);
    }
    print_times("round_trip", times_ns);
    let mut times_ns = Vec::new();
    for _ in 0..rounds.min(200) {
        std::thread::sleep(IDLE_TIME);
        let began = Instant::now();
        send_order(channel, Order::Echo)?;
        times_ns.push(began.elapsed().as_nanos() as u64);
    }
    print_times("round_trip_asleep", times_ns);
    let (mut times_ns, mut answer) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let began = Instant::now();
        channel.send(&Order::EchoPage.to_bytes())?;
        long.recv_into(&mut answer)?;
        times_ns.push(began.elapsed().as_nanos() as u64);
    }
    print_times("round_trip_page", times_ns);
    let mut page = vec![0; paged.page_bytes()];
    let copy = |number: u32| {
        time_ns(|| {
            let _ = paged.copy_out(number, &mut page);
            std::hint::black_box(&mut page);
        })
    };
    print_times("copy", (0..rounds).map(copy).collect());
    Ok(())
}

/// Measures faults of this rank, one at a time. Even pages have their home here, odd ones on the other node.
fn faults(channel: &mut Channel, pages: &Pages, rounds: u32) -> Result<(), Error> {
    for (home, first) in [("here", 0), ("there", 1)] {
        let (mut reads, mut upgrades, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        for page in (first..2 * rounds).step_by(2) {
            send_order(channel, Order::Write(page))?;
            reads.push(time_ns(|| {
                std::hint::black_box(read(pages, page));
            }));
            upgrades.push(time_ns(|| write(pages, page)));
            send_order(channel, Order::Write(page))?;
            writes.push(time_ns(|| write(pages, page)));
        }
        print_times(&format!("read_home_{home}"), reads);
        print_times(&format!("upgrade_home_{home}"), upgrades);
        print_times(&format!("write_home_{home}"), writes);
    }
    Ok(())
}

/// Measures alternating writes of both ranks to one word.
fn turns(channel: &mut Channel, pages: &Pages, rounds: u32, name: &str) -> Result<(), Error> {
    let turns = rounds.min(200);
    let first = 2 * rounds + 1;
    word(pages, first).store(0, Ordering::SeqCst);
    send_order(channel, Order::Turns(turns))?;
    let began = Instant::now();
    take_turns(pages, turns, 0)?;
    let all_ns = began.elapsed().as_nanos() as f64;
    let mut answer = Vec::new();
    channel.recv_into(&mut answer)?;
    print_figure(&format!("turn{name}_ns"), all_ns / f64::from(2 * turns));
    Ok(())
}

/// Waits for each number of the given parity, and writes the next.
fn take_turns(pages: &Pages, turns: u32, parity: u64) -> Result<(), Error> {
    let word = word(pages, pages.pages() - 1);
    for turn in 0..u64::from(turns) {
        let awaited = 2 * turn + parity;
        let began = Instant::now();
        while word.load(Ordering::SeqCst) != awaited {
            if began.elapsed() > TIMEOUT {
                return Err(Error::Stalled { waited: TIMEOUT });
            }
            std::thread::yield_now();
        }
        word.store(awaited + 1, Ordering::SeqCst);
    }
    Ok(())
}
