//! Shared pages: one address range over the memories of a job.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Instant;

use rustix::process::{Signal, getpid, kill_process};
use tombolo::Domain;
use tombolo_base::Random;
use tombolo_pages::{Access, Consistency, Error, Pages, PagesOptions};

use crate::{Outcome, PATIENCE};

/// Number of pages in the range.
const PAGES: u64 = 64;
/// Page size of every node in these tests.
const PAGE_BYTES: u64 = 4096;
/// Length of the array, in words.
const NUMBERS: usize = 8192;

fn number(index: usize) -> u64 {
    index as u64 * 3 + 1
}

/// All ranks increment one word, and each rank also its own word beside it. Then they fill an array in turn
/// and each sums all of it. Finally two threads of each rank increment random words of all pages.
pub(crate) fn count(increments: &str) -> Outcome {
    let increments: u64 = increments.parse()?;
    let domain = crate::attach()?;
    let job = domain.job()?;
    let pages = PagesOptions::new("count").open(&domain, &job, PAGES * PAGE_BYTES)?;
    let (rank, size) = (job.rank() as usize, job.size() as usize);
    let words = pages.memory().words();
    // All ranks start counting together.
    pages.barrier(PATIENCE)?;
    let started = Instant::now();
    for _ in 0..increments {
        words[0].fetch_add(1, Relaxed);
        let own = &words[1 + rank];
        own.store(own.load(Relaxed) + 1, Relaxed);
    }
    let counting_s = started.elapsed().as_secs_f64();
    let array = &words[words.len() - NUMBERS..];
    for index in (rank..NUMBERS).step_by(size) {
        array[index].store(number(index), Relaxed);
    }
    pages.barrier(PATIENCE)?;
    let total = words[0].load(SeqCst);
    let own: Vec<u64> = words[1..=size].iter().map(|word| word.load(SeqCst)).collect();
    let sum: u64 = array.iter().map(|word| word.load(SeqCst)).sum();
    if total != increments * size as u64 || own.iter().any(|own| *own != increments) {
        return Err(format!("counted {total} and {own:?}, not {increments} times {size}").into());
    }
    let expected: u64 = (0..NUMBERS).map(number).sum();
    if sum != expected {
        return Err(format!("the sum is {sum}, not {expected}").into());
    }
    pages.barrier(PATIENCE)?;
    let random_increments = increments / 100;
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                let mut random = Random::new((2 * rank + thread) as u64);
                for _ in 0..random_increments {
                    words[random.index(words.len())].fetch_add(1, Relaxed);
                }
            });
        }
    });
    pages.barrier(PATIENCE)?;
    let all: u64 = words.iter().map(|word| word.load(SeqCst)).sum();
    let expected = expected + 2 * total + 2 * random_increments * size as u64;
    if all != expected {
        return Err(format!("the sum of all pages is {all}, not {expected}").into());
    }
    let (hottest, totals) = (pages.hottest(1), pages.totals());
    println!("counted {total}, sum {sum}, in {counting_s:.3} s, hottest {hottest:?}, {totals:?}");
    pages.close(PATIENCE)?;
    Ok(())
}

/// Writes to the first word of a page.
fn put(pages: &Pages, page: usize, value: u64) {
    pages.memory().words()[page * pages.page_bytes() / 8].store(value, SeqCst);
}

fn get(pages: &Pages, page: usize) -> u64 {
    pages.memory().words()[page * pages.page_bytes() / 8].load(SeqCst)
}

fn wait_for(word: &AtomicU64, value: u64) -> Outcome {
    let started = Instant::now();
    while word.load(SeqCst) != value {
        if started.elapsed() > PATIENCE {
            return Err(format!("a word is {} and not {value}", word.load(SeqCst)).into());
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// Runs three ranks, the last of which is killed: only pages without another copy are lost.
pub(crate) fn lose() -> Outcome {
    let domain = crate::attach()?;
    let job = domain.job()?;
    let options = PagesOptions::new("lose").block_pages(1).ahead(0);
    let pages = options.open(&domain, &job, PAGES * PAGE_BYTES)?;
    let rank = job.rank();
    // Homes of pages 0, 3 and 5 are ranks 0, 0 and 2.
    if rank == 2 {
        put(&pages, 0, 7);
        put(&pages, 3, 9);
        put(&pages, 5, 8);
    }
    pages.barrier(PATIENCE)?;
    match rank {
        0 => assert_eq!(get(&pages, 5), 8),
        1 => assert_eq!(get(&pages, 3), 9),
        _ => {}
    }
    pages.barrier(PATIENCE)?;
    if rank == 2 {
        kill_process(getpid(), Signal::KILL)?;
    }
    match pages.barrier(PATIENCE) {
        Err(Error::RankEnded { rank: 2, node }) => println!("ended 2 on {node}"),
        other => return Err(format!("the meeting: {other:?}").into()),
    }
    match pages.acquire(0..1, Access::Read, PATIENCE) {
        Err(Error::Lost(lost)) => println!("lost {} with {} on {}", lost.page, lost.rank, lost.node),
        other => return Err(format!("the lost page: {other:?}").into()),
    }
    assert_eq!((get(&pages, 3), get(&pages, 5)), (9, 8));
    // The survivors continue on pages whose home is alive and on one whose home died but which has another
    // copy.
    let words = pages.memory().words();
    for word in [&words[4 * pages.page_bytes() / 8], &words[5 * pages.page_bytes() / 8 + 1]] {
        for _ in 0..1000 {
            word.fetch_add(1, SeqCst);
        }
        wait_for(word, 2000)?;
    }
    println!("counted on");
    // Rank 1 ends once rank 0 needs nothing more from it.
    if rank == 0 {
        put(&pages, 1, 1);
    } else {
        wait_for(&words[pages.page_bytes() / 8], 1)?;
        std::hint::black_box(get(&pages, 0));
        return Err("a page that is lost was read".into());
    }
    let outcome = pages.close(PATIENCE);
    println!("closed: {}", outcome.err().map_or("all were there".to_owned(), |error| error.to_string()));
    Ok(())
}

/// Tries to open a range that differs between ranks or is impossible.
pub(crate) fn refuse(bytes: &str) -> Outcome {
    let domain = Domain::attach()?;
    let job = domain.job()?;
    let bytes: u64 = bytes.parse()?;
    match PagesOptions::new("refuse").open(&domain, &job, bytes + u64::from(job.rank()) * PAGE_BYTES) {
        Ok(_) => Err("it was opened".into()),
        Err(error) => {
            println!("refused: {error}");
            Ok(())
        }
    }
}

/// Each rank writes its own word of one page, `apart`, and all ranks write one word of the next, until the
/// record `enough` is set.
pub(crate) fn share() -> Outcome {
    let domain = crate::attach()?;
    let job = domain.job()?;
    let pages = PagesOptions::new("share").open(&domain, &job, PAGES * PAGE_BYTES)?;
    let rank = job.rank() as usize;
    let (apart, common) = (512 + 8 * rank, 1024 + 3);
    for other in 0..job.size() as usize {
        let at = 8 * (512 + 8 * other);
        pages.name_object(at..at + 8, &format!("count_of_{other}"));
    }
    pages.name_object(8 * 1024..8 * 1024 + 64, "all");
    pages.barrier(PATIENCE)?;
    let (words, started) = (pages.memory().words(), Instant::now());
    while !domain.names().exists("enough")? {
        if started.elapsed() > PATIENCE {
            return Err("the record `enough` was not set".into());
        }
        for _ in 0..100 {
            words[apart].fetch_add(1, Relaxed);
            words[common].fetch_add(1, Relaxed);
        }
    }
    pages.barrier(PATIENCE)?;
    println!("shared");
    pages.close(PATIENCE)?;
    Ok(())
}

/// Tests release consistency: all ranks concurrently write different words of the same pages and see the
/// others' writes after a barrier; then they increment words under a lock.
pub(crate) fn release(rounds: &str) -> Outcome {
    let rounds: u64 = rounds.parse()?;
    let domain = crate::attach()?;
    let job = domain.job()?;
    let options = PagesOptions::new("release").consistency(Consistency::Release).block_pages(1);
    let pages = options.open(&domain, &job, PAGES * PAGE_BYTES)?;
    let (rank, size) = (u64::from(job.rank()), u64::from(job.size()));
    let words = pages.memory().words();
    let array = &words[..NUMBERS];
    pages.barrier(PATIENCE)?;
    for round in 1..=rounds {
        for index in (rank as usize..NUMBERS).step_by(size as usize) {
            array[index].store(round * 1_000_000 + index as u64, Relaxed);
        }
        pages.barrier(PATIENCE)?;
        for (index, word) in array.iter().enumerate() {
            let (value, expected) = (word.load(Relaxed), round * 1_000_000 + index as u64);
            if value != expected {
                return Err(format!("round {round}: word {index} is {value}, not {expected}").into());
            }
        }
        // All have read before the next round is written.
        pages.barrier(PATIENCE)?;
    }
    let counts: Vec<&AtomicU64> = (0..3).map(|page| &words[(40 + page) * 512]).collect();
    for _ in 0..rounds {
        let guard = domain.names().lock(&job.name("guard"))?.acquire(PATIENCE)?;
        pages.refresh();
        for count in &counts {
            count.store(count.load(Relaxed) + 1, Relaxed);
        }
        pages.release(PATIENCE)?;
        drop(guard);
    }
    pages.barrier(PATIENCE)?;
    for count in counts {
        if count.load(Relaxed) != rounds * size {
            return Err(format!("counted {}, not {}", count.load(Relaxed), rounds * size).into());
        }
    }
    println!("released {rounds} rounds, {:?}", pages.totals());
    pages.close(PATIENCE)?;
    Ok(())
}

/// Kills the last of three ranks, the home of a page that others have copies of and write to.
pub(crate) fn lose_home() -> Outcome {
    let domain = crate::attach()?;
    let job = domain.job()?;
    let options = PagesOptions::new("home").consistency(Consistency::Release).block_pages(1).ahead(0);
    let pages = options.open(&domain, &job, PAGES * PAGE_BYTES)?;
    pages.barrier(PATIENCE)?;
    if job.rank() == 2 {
        put(&pages, 3, 7);
    } else {
        put(&pages, 5, 8);
    }
    // Rank 0 does not release, so its write is lost with rank 2.
    if job.rank() > 0 {
        pages.release(PATIENCE)?;
    }
    // All ranks have written.
    domain.names().barrier(&job.name("written"), 3)?.wait(PATIENCE)?;
    if job.rank() == 2 {
        kill_process(getpid(), Signal::KILL)?;
    }
    while pages.acquire(5..6, Access::Read, PATIENCE).is_ok() {
        std::thread::yield_now();
    }
    match pages.acquire(5..6, Access::Read, PATIENCE) {
        Err(Error::Lost(lost)) => println!("lost {} with {} on {}", lost.page, lost.rank, lost.node),
        other => return Err(format!("the lost page: {other:?}").into()),
    }
    match (job.rank(), pages.release(PATIENCE)) {
        (0, Err(Error::RankEnded { rank: 2, .. })) | (1, Ok(())) => {}
        (_, other) => return Err(format!("the release: {other:?}").into()),
    }
    pages.refresh();
    println!("page 3 has {}", get(&pages, 3));
    // Rank 0 is the home of that page.
    domain.names().barrier(&job.name("read"), 2)?.wait(PATIENCE)?;
    Ok(())
}
