//! Joining node's side of the rendezvous.

use core::num::NonZeroU16;

use tombolo_base::{CacheMaintenance, NodeId, SharedMemory};

use super::page::{self, CLAIM_MAGIC, OFFER_MAGIC, ORDER, REQUEST, claim, offer, pulse, read, write};
use super::{
    ACCEPTED, Bells, FORCED, HeartbeatWatch, Loss, Name, Nonce, RendezvousError, Role, Secret, Terms,
    WireTerms, trial,
};

/// Interval at which a claim is rewritten, in nanoseconds: an expired joiner may have overwritten it.
pub(super) const CLAIM_RETRY_NS: u64 = 100_000_000;

/// Time that a joiner that disagrees waits for its turn to report that to the root, in nanoseconds.
const REPORT_TIMEOUT_NS: u64 = 1_000_000_000;

/// Condition that a joiner waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// There is no offer, or the root that made it shows no sign of life.
    ForRoot,
    /// The node already has a joiner. It may be dead, which the root will detect.
    ForPredecessor,
    /// The request or the claim has not been answered yet.
    ForAnswer,
}

/// Event on the joiner's side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JoinEvent {
    /// Nothing to do but wait.
    Waiting(Waiting),
    /// The node is joined.
    Joined(Accepted),
    /// The node is joined and the root is alive.
    Nothing,
    /// The two sides do not agree.
    Failed(RendezvousError),
    /// The root is gone. A new [`Joiner`] may join again.
    Lost(Loss),
}

/// Decision of the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// Id of the node.
    pub node: NodeId,
    /// Generation of the node.
    pub generation: NonZeroU16,
    /// Number of doorbells in each direction.
    pub bells: u16,
    /// Name of the node.
    pub name: Name,
    /// Name of the machine.
    pub machine: Name,
}

#[derive(Clone, Copy, Debug)]
enum State {
    FindingOffer,
    /// Requests its turn to write the claim. With a difference it does so only to make the root report it
    /// too.
    Requesting {
        session: Nonce,
        since_ns: u64,
        difference: Option<RendezvousError>,
    },
    Claimed {
        session: Nonce,
        since_ns: u64,
    },
    Joined {
        session: Nonce,
    },
}

/// Joiner's side: one attempt.
#[derive(Debug)]
pub struct Joiner {
    terms: Terms,
    /// Name of the wanted node; `None` for the node that the window belongs to.
    wanted: Option<Name>,
    attempt: Nonce,
    kernel: u64,
    base_bytes: u64,
    silence_ns: u64,
    /// Whether to join although the window is unsound.
    is_forced: bool,
    state: State,
    root: Option<HeartbeatWatch>,
    predecessor: Option<(u64, HeartbeatWatch)>,
    beat: u64,
}

impl Joiner {
    /// Creates an attempt with a fresh random number.
    ///
    /// `kernel` identifies the kernel that runs here. `base_bytes` is the offset of the window in the file
    /// that programs map. The root counts as lost after `silence_ns` without a heartbeat.
    ///
    /// # Panics
    /// When the window is shorter than its first page.
    #[must_use]
    pub fn new<C: CacheMaintenance>(
        window: &SharedMemory<C>,
        terms: Terms,
        wanted: Option<Name>,
        attempt: Nonce,
        (kernel, base_bytes): (u64, u64),
        silence_ns: u64,
    ) -> Self {
        let beat = read(window, pulse::JOINER + pulse::BEAT);
        Joiner {
            terms,
            wanted,
            attempt,
            kernel,
            base_bytes,
            silence_ns,
            is_forced: false,
            state: State::FindingOffer,
            root: None,
            predecessor: None,
            beat,
        }
    }

    /// Joins even if the window does not retain what is written.
    #[must_use]
    pub fn forced(self, is_forced: bool) -> Self {
        Joiner { is_forced, ..self }
    }

    /// Processes what the root wrote and advances the state.
    pub fn poll<C: CacheMaintenance>(
        &mut self,
        window: &SharedMemory<C>,
        now_ns: u64,
        secret: &impl Secret,
    ) -> JoinEvent {
        let root = read(window, pulse::HOST + pulse::BEAT);
        let watch = self.root.get_or_insert(HeartbeatWatch::new(root, now_ns));
        let silence_ns = watch.silence_ns(root, now_ns);
        let is_alive = watch.is_alive && silence_ns <= self.silence_ns;
        match self.state {
            State::FindingOffer => self.find_offer(window, now_ns, is_alive, secret),
            State::Requesting { session, .. } | State::Claimed { session, .. }
                if !is_alive || page::nonce(window, offer::SESSION) != Some(session) =>
            {
                if let State::Requesting { difference: Some(error), .. } = self.state {
                    return JoinEvent::Failed(error);
                }
                self.state = State::FindingOffer;
                JoinEvent::Waiting(Waiting::ForRoot)
            }
            State::Requesting { session, since_ns, difference } => {
                self.request(window, now_ns, (session, since_ns, difference), secret)
            }
            State::Claimed { session, since_ns } => {
                self.await_answer(window, now_ns, (session, since_ns), secret)
            }
            State::Joined { session } => {
                if page::nonce(window, pulse::HOST + pulse::IDENTITY) != Some(session) {
                    return JoinEvent::Lost(Loss::Replaced);
                }
                if read(window, pulse::HOST + pulse::STATE) == pulse::LEFT {
                    return JoinEvent::Lost(Loss::Left);
                }
                if silence_ns > self.silence_ns {
                    return JoinEvent::Lost(Loss::Silent { for_ns: silence_ns });
                }
                JoinEvent::Nothing
            }
        }
    }

    fn find_offer<C: CacheMaintenance>(
        &mut self,
        window: &SharedMemory<C>,
        now_ns: u64,
        is_alive: bool,
        secret: &impl Secret,
    ) -> JoinEvent {
        let session = page::nonce(window, offer::SESSION);
        let (Some(session), true) = (session, read(window, offer::MAGIC) != 0) else {
            return JoinEvent::Waiting(Waiting::ForRoot);
        };
        let evictions = [offer::CACHE_SEED, offer::EVICT_ONE_IN];
        let offered = match page::read_terms(window, offer::MAGIC, OFFER_MAGIC, evictions) {
            Ok(offered) => offered,
            // Memory that has never been a window will not become one by waiting.
            Err(error) => {
                if !matches!(error, RendezvousError::NotTombolo { .. }) {
                    self.claim_without_grant(window, session, secret);
                }
                return JoinEvent::Failed(error);
            }
        };
        if !is_alive {
            return JoinEvent::Waiting(Waiting::ForRoot);
        }
        let name = Name::from_words(page::read_four(window, offer::NODE_NAME));
        if let Some(wanted) = self.wanted.filter(|wanted| *wanted != name) {
            return JoinEvent::Failed(RendezvousError::Node { offered: name, wanted });
        }
        // The root detects the same difference and reports it too.
        let difference = WireTerms::from_terms(&self.terms).compare(&offered).and_then(|()| {
            match trial::read_words(window, offer::TRIAL, session, &[]).lost {
                lost if lost != 0 && !self.is_forced => Err(RendezvousError::Unsound { lost }),
                _ => Ok(()),
            }
        });
        let answered = read(window, offer::ANSWERED);
        if answered != 0 && read(window, offer::VERDICT) == ACCEPTED {
            return match difference {
                Ok(()) => self.check_predecessor(window, answered, now_ns),
                Err(error) => JoinEvent::Failed(error),
            };
        }
        self.request(window, now_ns, (session, now_ns, difference.err()), secret)
    }

    /// Requests its turn, and writes the claim when the turn comes.
    fn request<C: CacheMaintenance>(
        &mut self,
        window: &SharedMemory<C>,
        now_ns: u64,
        (session, since_ns, difference): (Nonce, u64, Option<RendezvousError>),
        secret: &impl Secret,
    ) -> JoinEvent {
        self.state = State::Requesting { session, since_ns, difference };
        if let Some(event) = self.check_answer(window, session, secret) {
            return difference.map_or(event, JoinEvent::Failed);
        }
        if read(window, offer::GRANTED) == self.attempt.get() {
            let lost = if let Some(RendezvousError::Unsound { lost }) = difference { lost } else { 0 };
            self.claim(window, session, lost, secret);
            if let Some(error) = difference {
                return JoinEvent::Failed(error);
            }
            self.state = State::Claimed { session, since_ns: now_ns };
        } else if let Some(error) = difference
            && now_ns.saturating_sub(since_ns) > REPORT_TIMEOUT_NS
        {
            return JoinEvent::Failed(error);
        } else {
            // A single store, so that one of several requests is intact; the others are repeated.
            let request = self.attempt.get() ^ session.get();
            if read(window, REQUEST) != request {
                write(window, REQUEST, request);
            }
        }
        JoinEvent::Waiting(Waiting::ForAnswer)
    }

    /// Handles a node that is taken: if its joiner lives this attempt fails, otherwise the root will detect
    /// its death.
    fn check_predecessor<C: CacheMaintenance>(
        &mut self,
        window: &SharedMemory<C>,
        answered: u64,
        now_ns: u64,
    ) -> JoinEvent {
        let beat = read(window, pulse::JOINER + pulse::BEAT);
        let (watched_attempt, watch) =
            self.predecessor.get_or_insert((answered, HeartbeatWatch::new(beat, now_ns)));
        if *watched_attempt != answered {
            (*watched_attempt, *watch) = (answered, HeartbeatWatch::new(beat, now_ns));
        }
        watch.silence_ns(beat, now_ns);
        if watch.is_alive {
            return JoinEvent::Failed(RendezvousError::Taken);
        }
        JoinEvent::Waiting(Waiting::ForPredecessor)
    }

    /// Writes the claim. `lost` of the words that the root wrote read back differently.
    fn claim<C: CacheMaintenance>(
        &self,
        window: &SharedMemory<C>,
        session: Nonce,
        lost: u8,
        secret: &impl Secret,
    ) {
        self.claim_stores(session, lost, secret).for_each(|(word, value)| write(window, word, value));
    }

    /// Returns the stores of a claim in their order.
    pub(super) fn claim_stores(
        &self,
        session: Nonce,
        lost: u8,
        secret: &impl Secret,
    ) -> impl Iterator<Item = (usize, u64)> {
        let own_terms = WireTerms::from_terms(&self.terms);
        let lost = if self.is_forced { FORCED } else { lost };
        let signed = [
            CLAIM_MAGIC,
            ORDER,
            page::versions(own_terms.release),
            own_terms.length_bytes,
            session.get(),
            page::shape(&own_terms) | u64::from(lost) << 56,
            self.kernel,
            self.base_bytes,
            own_terms.coherence.seed,
            own_terms.coherence.one_in,
        ];
        let proof = secret.proof(Role::Joiner, session, self.attempt, &signed);
        [(claim::ATTEMPT, 0)]
            .into_iter()
            .chain(trial::stores(claim::TRIAL, self.attempt))
            .chain(claim::SIGNED.into_iter().zip(signed))
            .chain((claim::PROOF..).zip(proof))
            .chain([
                (claim::SEAL, page::seal(self.attempt, &signed, &proof)),
                (claim::ATTEMPT, self.attempt.get()),
            ])
    }

    /// Writes a claim without a grant and without a trial, because the root could not understand a request.
    fn claim_without_grant<C: CacheMaintenance>(
        &self,
        window: &SharedMemory<C>,
        session: Nonce,
        secret: &impl Secret,
    ) {
        let stores = self.claim_stores(session, 0, secret);
        stores.filter(|(word, _)| *word < claim::TRIAL).for_each(|(word, value)| write(window, word, value));
    }

    fn await_answer<C: CacheMaintenance>(
        &mut self,
        window: &SharedMemory<C>,
        now_ns: u64,
        (session, since_ns): (Nonce, u64),
        secret: &impl Secret,
    ) -> JoinEvent {
        if let Some(event) = self.check_answer(window, session, secret) {
            return event;
        }
        if read(window, offer::GRANTED) != self.attempt.get() {
            // It was too slow, or is being answered right now.
            self.state = State::Requesting { session, since_ns: now_ns, difference: None };
        } else if now_ns.saturating_sub(since_ns) > CLAIM_RETRY_NS {
            self.claim(window, session, 0, secret);
            self.state = State::Claimed { session, since_ns: now_ns };
        }
        JoinEvent::Waiting(Waiting::ForAnswer)
    }

    /// Returns the answer, if it is for this attempt or gave the node to another.
    fn check_answer<C: CacheMaintenance>(
        &mut self,
        window: &SharedMemory<C>,
        session: Nonce,
        secret: &impl Secret,
    ) -> Option<JoinEvent> {
        let answered = read(window, offer::ANSWERED);
        let verdict = read(window, offer::VERDICT);
        if read(window, offer::ANSWERED) != answered {
            // The verdict may belong to another attempt.
            return None;
        }
        if answered == self.attempt.get() {
            return Some(self.handle_answer(window, session, verdict, secret));
        }
        let is_taken = answered != 0 && verdict == ACCEPTED;
        is_taken.then_some(JoinEvent::Failed(RendezvousError::Taken))
    }

    fn handle_answer<C: CacheMaintenance>(
        &mut self,
        window: &SharedMemory<C>,
        session: Nonce,
        verdict: u64,
        secret: &impl Secret,
    ) -> JoinEvent {
        if verdict != ACCEPTED {
            return JoinEvent::Failed(RendezvousError::from_code(verdict));
        }
        let generation = read(window, offer::GENERATION) as u16;
        let proof = secret.proof(Role::Host, session, self.attempt, &[verdict, generation.into()]);
        let generation = NonZeroU16::new(generation);
        let Some(generation) = generation.filter(|_| proof == page::read_four(window, offer::PROOF)) else {
            return JoinEvent::Failed(RendezvousError::Key);
        };
        write(window, pulse::JOINER + pulse::STATE, pulse::OPEN);
        write(window, pulse::JOINER + pulse::IDENTITY, self.attempt.get());
        self.write_heartbeat(window);
        self.state = State::Joined { session };
        let shape = read(window, offer::SHAPE);
        JoinEvent::Joined(Accepted {
            node: NodeId(shape as u16),
            generation,
            bells: (shape >> 16) as u16,
            name: Name::from_words(page::read_four(window, offer::NODE_NAME)),
            machine: Name::from_words(page::read_four(window, offer::MACHINE_NAME)),
        })
    }

    /// Returns the bells of a node that has just joined. Rings of the root before the node's first ring are
    /// lost.
    #[must_use]
    pub fn bells<C: CacheMaintenance>(&self, window: &SharedMemory<C>, accepted: &Accepted) -> Bells {
        Bells::new(window, Role::Joiner, accepted.bells)
    }

    /// Writes a heartbeat of this node, once it has joined. Call it several times within the root's silence
    /// limit.
    pub fn write_heartbeat<C: CacheMaintenance>(&mut self, window: &SharedMemory<C>) {
        self.beat = self.beat.wrapping_add(1);
        write(window, pulse::JOINER + pulse::BEAT, self.beat);
    }

    /// Leaves the node, so that the root need not wait for silence.
    pub fn leave<C: CacheMaintenance>(&mut self, window: &SharedMemory<C>) {
        if let State::Joined { .. } = self.state {
            write(window, pulse::JOINER + pulse::STATE, pulse::LEFT);
        }
    }
}
