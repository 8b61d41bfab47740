//! Kills of boards: a program on a board has a channel to one on another node, and the board, its program or
//! the peer is killed.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tombolo::DomainId;
use tombolo::nodes::NodeKind;
use tombolo_e2e::{PATIENCE, Running, image};

use crate::kill::text;
use crate::population::Failure;
use crate::state::Chaos;

/// Roles of the board's program, and the matching roles of its peer.
const ROLES: [(&str, &str); 3] = [("sends", "recv"), ("receives", "send"), ("idles", "recv")];

/// Part that is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Victim {
    /// The board's emulator, so that the node is lost.
    Board,
    /// The domain on the board, which its monitor ends.
    Program,
    /// The domain at the other end of the channel.
    OtherEnd,
}

const VICTIMS: [Victim; 3] = [Victim::Board, Victim::Program, Victim::OtherEnd];

/// A program on a board, and its peer.
struct Pair {
    node: String,
    role: &'static str,
    id: DomainId,
    /// Command that started the board's program.
    program: Running,
    other: Running,
}

impl Chaos {
    /// Lists the names of the boards, in the order of the machine file.
    pub(crate) fn boards(&self) -> Vec<String> {
        self.names_of(|kind| kind == NodeKind::Bare)
    }

    /// Lists the nodes with an operating system.
    pub(crate) fn with_system(&self) -> Vec<String> {
        self.names_of(|kind| kind != NodeKind::Bare)
    }

    fn names_of(&self, is_one: impl Fn(NodeKind) -> bool) -> Vec<String> {
        let chosen = self.kinds_of_nodes.iter().filter(|(_, kind)| is_one(*kind));
        chosen.map(|(name, _)| name.clone()).collect()
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.random.below(all.len() as u64) as usize].clone()
    }

    /// Kills a board, its program, or the program's peer. Checks that the survivors learn of the death, that
    /// a lost node returns in its next generation, and that programs run on it.
    pub(crate) fn kill_board(&mut self) -> Result<(), Failure> {
        let (boards, others) = (self.boards(), self.with_system());
        let (node, other) = (self.one_of(&boards), self.one_of(&others));
        let ((role, how), victim) = (self.one_of(&ROLES), self.one_of(&VICTIMS));
        let pair = self.connect(node, &other, role, how)?;
        let pause = Duration::from_millis(self.random.below(20));
        self.population.process_events(&self.domain, pause)?;
        let what = format!("{victim:?} of {} that {role}, with {other}", pair.node);
        let done = match victim {
            Victim::Board => self.kill_board_of_pair(pair),
            Victim::Program => self.kill_program(pair),
            Victim::OtherEnd => self.kill_other_end(pair),
        };
        done.map_err(|failure| format!("{what}: {failure}"))
    }

    /// Starts both programs. Returns once their channel is open.
    fn connect(&mut self, node: String, other: &str, role: &'static str, how: &str) -> Result<Pair, Failure> {
        let name = format!("chaos-{node}");
        let remote_peer = image("remote-peer").display().to_string();
        let shape = ["64", "256", "false", "0"];
        let words = ["run", "--on", &node, &remote_peer, "play", &name, role].into_iter().chain(shape);
        let program = self.machine.start(words);
        self.until("its program offers no channel", |chaos| {
            Ok(!chaos.domain.names().find(&name).map_err(text)?.is_empty())
        })?;
        let actor = self.image.display().to_string();
        let other = self.machine.start(["run", "--on", other, &actor, "lose-peer", how, &name]);
        other.wait_for("connected");
        let all = self.admin().domains().map_err(text)?;
        let on_board = all.iter().find(|domain| domain.node == node).map(|domain| domain.id);
        Ok(Pair { id: on_board.ok_or("its program is not listed")?, node, role, program, other })
    }

    fn kill_board_of_pair(&mut self, pair: Pair) -> Result<(), Failure> {
        let Pair { node, program, other, .. } = pair;
        let (before, pid) = self.node(&node, |info| (info.generation, info.pid))?;
        self.machine.kill(pid);
        expect_death_report(other)?;
        failed(program)?;
        self.until("it was killed and is said to be up", |chaos| Ok(!chaos.node(&node, |info| info.up)?))?;
        self.admin().restart_node(&node).map_err(text)?;
        let after = self.node(&node, |info| info.generation)?;
        if after != before + 1 {
            return Err(format!("it was of generation {before} and was restarted as generation {after}"));
        }
        self.runs_on_board(&node)
    }

    fn kill_program(&mut self, pair: Pair) -> Result<(), Failure> {
        self.admin().kill(pair.id, tombolo_admin::Signal::KILL, Duration::ZERO).map_err(text)?;
        expect_death_report(pair.other)?;
        failed(pair.program)?;
        self.runs_on_board(&pair.node)
    }

    fn kill_other_end(&mut self, pair: Pair) -> Result<(), Failure> {
        let Pair { node, role, id, program, other } = pair;
        other.signal(Signal::KILL);
        let finished = other.finish();
        if finished.status == 0 {
            return Err(format!("it was killed and went well: {finished}"));
        }
        // An idle program does not check its channel.
        if role == "idles" {
            self.admin().kill(id, tombolo_admin::Signal::KILL, Duration::ZERO).map_err(text)?;
            failed(program)?;
        } else {
            let finished = program.finish();
            if finished.status != 0 {
                return Err(format!("it takes the death of its peer for something else: {finished}"));
            }
        }
        self.runs_on_board(&node)
    }

    /// Attends to the population until a condition holds. Fails with `what` if it does not hold in time.
    fn until(
        &mut self,
        what: &str,
        mut holds: impl FnMut(&Chaos) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let until = Instant::now() + PATIENCE;
        while !holds(self)? {
            if Instant::now() > until {
                return Err(format!("hangs: {what}"));
            }
            self.population.process_events(&self.domain, Duration::from_millis(5))?;
        }
        Ok(())
    }

    /// Makes a new root load the images for boards. The root caches images, which would look like growth if
    /// they were loaded later.
    pub(crate) fn know_images_of_boards(&self) -> Result<(), Failure> {
        let Some(board) = self.boards().into_iter().next() else { return Ok(()) };
        self.runs_on_board(&board)?;
        // Without arguments the program prints its usage and fails.
        let program = image("remote-peer").display().to_string();
        let finished = self.machine.tombolo(["run", "--on", &board, &program]);
        if finished.status == 1 { Ok(()) } else { Err(format!("it has no order, and goes on: {finished}")) }
    }

    /// Checks that a program on the host and one on the board exchange messages.
    pub(crate) fn runs_on_board(&self, node: &str) -> Result<(), Failure> {
        let program = image("bare-pingpong").display().to_string();
        let finished = self.machine.tombolo(["run", "--on", &format!("host,{node}"), &program]);
        match finished.status {
            0 => Ok(()),
            _ => Err(format!("a program on {node} does not run any more: {finished}")),
        }
    }
}

fn expect_death_report(survivor: Running) -> Result<(), Failure> {
    let finished = survivor.finish();
    if finished.status == 0 && finished.text().contains("peer died: domain") {
        return Ok(());
    }
    Err(format!("its peer does not report its death: {finished}"))
}

fn failed(program: Running) -> Result<(), Failure> {
    let finished = program.finish();
    if finished.status != 0 { Ok(()) } else { Err(format!("it was killed and went well: {finished}")) }
}
