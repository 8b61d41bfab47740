//! A rank as seen by its process manager: it speaks PMI on the socket `PMI_FD`, without any MPI.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use crate::{Outcome, PATIENCE};

/// The connection to the process manager.
struct Manager {
    socket: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Manager {
    fn connect() -> Result<Manager, Box<dyn std::error::Error>> {
        let number = std::env::var("PMI_FD")?.parse()?;
        let socket = UnixStream::from(tombolo_platform::process::take_inherited_fd(number)?);
        let answers = BufReader::new(socket.try_clone()?);
        Ok(Manager { socket, answers })
    }

    fn send_line(&mut self, line: &str) -> Outcome {
        Ok(self.socket.write_all(line.as_bytes())?)
    }

    /// Sends a request and returns the reply without its line end.
    fn ask(&mut self, line: &str) -> Result<String, Box<dyn std::error::Error>> {
        self.send_line(&format!("{line}\n"))?;
        let mut answer = String::new();
        if self.answers.read_line(&mut answer)? == 0 {
            return Err("the process manager hung up".into());
        }
        Ok(answer.trim_end().to_owned())
    }

    /// Sends a request that must succeed.
    fn get(&mut self, line: &str) -> Result<String, Box<dyn std::error::Error>> {
        let answer = self.ask(line)?;
        if answer.contains(" rc=0") { Ok(answer) } else { Err(format!("{line}: {answer}").into()) }
    }
}

/// Runs the steps in order; a step with the prefix `N?` only as rank N.
pub(crate) fn run(steps: &[&str]) -> Outcome {
    let mut manager = Manager::connect()?;
    let rank = std::env::var("PMI_RANK")?;
    for step in steps {
        let step = match step.split_once('?') {
            Some((only, step)) if only == rank => step,
            Some(_) => continue,
            None => step,
        };
        let (word, rest) = step.split_once(':').unwrap_or((step, ""));
        match word {
            "init" => drop(manager.get("cmd=init pmi_version=1 pmi_subversion=1")?),
            "put" => {
                let (key, value) = rest.split_once('=').ok_or("a key and a value")?;
                manager.get(&format!("cmd=put key={key}-{rank} value={value}"))?;
            }
            "get" => println!("{}", manager.ask(&format!("cmd=get key={rest}"))?),
            "barrier" => drop(manager.get("cmd=barrier_in")?),
            "finalize" => drop(manager.get("cmd=finalize")?),
            "abort" => manager.send_line(&format!("cmd=abort exitcode={rest}\n"))?,
            "publish" => {
                let (service, port) = rest.split_once('=').ok_or("a service and a port")?;
                println!("{}", manager.ask(&format!("cmd=publish_name service={service} port={port}"))?);
            }
            "lookup" => println!("{}", manager.ask(&format!("cmd=lookup_name service={rest}"))?),
            "unpublish" => println!("{}", manager.ask(&format!("cmd=unpublish_name service={rest}"))?),
            "spawn" => println!("{}", manager.ask(&spawning(rest)?)?),
            "raw" => manager.send_line(&rest.replace("\\n", "\n"))?,
            // Sends requests forever and reads no reply.
            "deaf" => loop {
                manager.send_line("cmd=get_maxes\n")?;
            },
            "tell" => {
                println!("{rest} rank {rank} of {}", std::env::var("PMI_SIZE")?);
            }
            "variable" => println!("{rest}={}", std::env::var(rest).unwrap_or_default()),
            "read" => {
                let input = std::io::read_to_string(std::io::stdin())?;
                println!("rank {rank} read {} bytes", input.len());
            }
            "sleep" => std::thread::sleep(Duration::from_millis(rest.parse()?)),
            "hang" => std::thread::sleep(PATIENCE),
            "raise" => {
                let signal = Signal::from_named_raw(rest.parse()?).ok_or("no such signal")?;
                kill_process(getpid(), signal)?;
                std::thread::sleep(PATIENCE);
            }
            "exit" => std::process::exit(rest.parse()?),
            _ => return Err(format!("no such step: {step}").into()),
        }
    }
    Ok(())
}

/// Builds a spawn request from `COUNT,NODE,PROGRAM,STEPS…`; an empty node means any.
fn spawning(what: &str) -> Result<String, Box<dyn std::error::Error>> {
    let mut words = what.split(',');
    let (count, node) = (words.next().ok_or("a count")?, words.next().ok_or("a node")?);
    let (program, steps) = (words.next().ok_or("a program")?, words.collect::<Vec<_>>());
    let mut request = format!(
        "mcmd=spawn\nnprocs={count}\nexecname={program}\ntotspawns=1\nspawnssofar=1\nargcnt={}\narg1=pmi\n",
        steps.len() + 1
    );
    for (index, step) in steps.iter().enumerate() {
        request += &format!("arg{}={step}\n", index + 2);
    }
    request += "preput_num=1\npreput_key_0=parent\npreput_val_0=here\n";
    match node {
        "" => request += "info_num=0\n",
        node => request += &format!("info_num=1\ninfo_key_0=host\ninfo_val_0={node}\n"),
    }
    Ok(request + "endcmd")
}
