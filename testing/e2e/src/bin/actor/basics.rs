//! Start, arguments, streams and end of a program.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use tombolo::{Exit, SpawnOptions};

use crate::{Outcome, PATIENCE};

pub(crate) fn raise(signal: &str) -> Outcome {
    let signal = Signal::from_named_raw(signal.parse()?).ok_or("no such signal")?;
    kill_process(getpid(), signal)?;
    std::thread::sleep(PATIENCE);
    Ok(())
}

/// Prints arguments, variables, working directory and input, one item per line.
pub(crate) fn tell() -> Outcome {
    for (index, argument) in std::env::args().enumerate() {
        println!("argument {index}: {argument:?}");
    }
    for (name, value) in std::env::vars() {
        if name.starts_with("TOMBOLO_") || name.starts_with("GIVEN") {
            println!("variable {name}={value:?}");
        }
    }
    println!("directory {}", std::env::current_dir()?.display());
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input)?;
    println!("input {:?}", String::from_utf8_lossy(&input));
    println!("isa {}", tombolo::Isa::current());
    eprintln!("on standard error");
    Ok(())
}

pub(crate) fn cat() -> Outcome {
    std::io::copy(&mut std::io::stdin(), &mut std::io::stdout())?;
    Ok(())
}

/// Returns the byte at a position of a flood.
pub(crate) fn flood_byte(position: u64) -> u8 {
    (position ^ (position >> 8) ^ (position >> 16)) as u8
}

/// Writes `bytes` bytes of a known pattern.
pub(crate) fn flood(stream: &str, bytes: &str) -> Outcome {
    let total: u64 = bytes.parse()?;
    let mut target: Box<dyn Write> =
        if stream == "stderr" { Box::new(std::io::stderr()) } else { Box::new(std::io::stdout()) };
    let mut position = 0;
    while position < total {
        let end = total.min(position + 50_000);
        let piece: Vec<u8> = (position..end).map(flood_byte).collect();
        target.write_all(&piece)?;
        position = end;
    }
    target.flush()?;
    Ok(())
}

/// Writes many lines, each in a separate write.
pub(crate) fn mutter(count: &str) -> Outcome {
    let mut errors = std::io::stderr();
    for number in 0..count.parse()? {
        let number: u64 = number;
        errors.write_all(format!("{number}\n").as_bytes())?;
    }
    Ok(())
}

pub(crate) fn sleep(seconds: &str) -> Outcome {
    println!("sleeping");
    std::thread::sleep(Duration::from_secs_f64(seconds.parse()?));
    Ok(())
}

/// Replaces this process with a shell that ignores SIGTERM: this program's own process group would not
/// survive the signal.
pub(crate) fn ignore_term() -> Outcome {
    use std::os::unix::process::CommandExt;
    let error = Command::new("sh").args(["-c", "trap '' TERM; echo ignoring; sleep 1000"]).exec();
    Err(error.into())
}

/// Runs a shell that starts a process which outlives it, then continues for a while.
pub(crate) fn leave_behind(script: &str, seconds: &str) -> Outcome {
    // Its output is discarded: a pipe held open by the orphan would keep readers waiting.
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = shell.status()?;
    println!("left behind: {status}");
    std::thread::sleep(Duration::from_secs_f64(seconds.parse()?));
    Ok(())
}

/// Starts this image on a node and prints how that ends.
pub(crate) fn parent(node: &str, words: &[&str]) -> Outcome {
    let domain = crate::attach()?;
    let child = domain.spawn(&SpawnOptions::this_image().on(node).args(words.iter().copied()))?;
    println!("child {}", child.id());
    println!("child ended: {:?}", child.wait(PATIENCE)?);
    Ok(())
}

/// Starts this image on a node `count` times, one child after the other.
pub(crate) fn spawn_in_turn(node: &str, count: &str) -> Outcome {
    let domain = crate::attach()?;
    let count: u32 = count.parse()?;
    for number in 0..count {
        let status = (number % 256) as u8;
        let options = SpawnOptions::this_image().on(node).arg("exit").arg(status.to_string());
        let exit = domain.spawn(&options)?.wait(PATIENCE)?;
        if exit != (Exit::Exited { status }) {
            return Err(format!("child {number} ended so: {exit:?}").into());
        }
    }
    println!("{count} started and ended");
    Ok(())
}
