//! Root's side of the rendezvous.

use core::num::NonZeroU16;

use tombolo_base::{CacheMaintenance, NodeId, SharedMemory};

use super::page::{self, CLAIM_MAGIC, OFFER_MAGIC, ORDER, REQUEST, claim, offer, pulse, read, write};
use super::{
    ACCEPTED, Bells, FORCED, HeartbeatWatch, Loss, MAX_BELLS, Name, Nonce, RendezvousError, Role, Secret,
    Terms, WireTerms, trial,
};

/// Event on the root's side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostEvent {
    /// Nothing happened.
    Nothing,
    /// A joiner was refused. The root keeps waiting for others.
    Refused(RendezvousError),
    /// A joiner claimed the node: prepare the window, then [`accept`](Host::accept).
    Claimed(Claim),
    /// The joiner that held the node is gone. [`Host::open`] creates a new session.
    Lost(Loss),
}

/// Claim that agrees with the offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    attempt: Nonce,
    /// Identifying number of the kernel that the joiner runs under.
    pub kernel: u64,
    /// Offset of the window in the file that programs on the node map, in bytes.
    pub base_bytes: u64,
}

/// Root's side: one session, from the offer to the loss of the joiner.
#[derive(Debug)]
pub struct Host {
    terms: Terms,
    session: Nonce,
    silence_ns: u64,
    beat: u64,
    /// Last attempt that was answered.
    answered: u64,
    stale_request: u64,
    grant: Option<Grant>,
    /// Attempts whose grant expired but that may still write the claim, and 0.
    overdue: [u64; MAX_OVERDUE],
    joined: Option<(Nonce, HeartbeatWatch)>,
}

/// Time for a joiner to write a claim that was granted to it, before others get a turn, in nanoseconds.
const GRANT_TIMEOUT_NS: u64 = 1_000_000_000;

/// Time for which a claim may be found torn, in nanoseconds, although it is rewritten every
/// [`CLAIM_RETRY_NS`](super::joiner::CLAIM_RETRY_NS). After that the window is considered faulty.
const MAX_TORN_NS: u64 = 3_000_000_000;

/// Number of expired attempts that are remembered.
const MAX_OVERDUE: usize = 8;

/// Right of one attempt to write the claim.
#[derive(Debug)]
struct Grant {
    attempt: Nonce,
    until_ns: u64,
    torn_since_ns: Option<u64>,
}

/// Claim as read from the window.
struct ReadClaim {
    theirs: Result<WireTerms, RendezvousError>,
    signed: [u64; claim::SIGNED.len()],
    proof: [u64; 4],
    trial: trial::TrialResult,
    is_sealed: bool,
}

impl Host {
    /// Offers the window for `node` with a fresh `session`. A joiner counts as lost after `silence_ns`
    /// without a heartbeat.
    ///
    /// # Panics
    /// When the window is shorter than its first page.
    #[must_use]
    pub fn open<C: CacheMaintenance>(
        window: &SharedMemory<C>,
        terms: Terms,
        (node, name, machine): (NodeId, &str, &str),
        session: Nonce,
        silence_ns: u64,
    ) -> Self {
        write(window, offer::MAGIC, 0);
        write(window, offer::ANSWERED, 0);
        write(window, offer::VERDICT, 0);
        write(window, offer::ORDER, ORDER);
        write(window, offer::VERSIONS, page::versions(terms.release));
        write(window, offer::LENGTH, terms.length_bytes);
        write(window, offer::SESSION, session.get());
        write(window, offer::GRANTED, 0);
        let offered = WireTerms::from_terms(&terms);
        write(window, offer::CACHE_SEED, offered.coherence.seed);
        write(window, offer::EVICT_ONE_IN, offered.coherence.one_in);
        let bells = u64::from(terms.bells.min(MAX_BELLS)) << 16;
        write(window, offer::SHAPE, page::shape(&offered) | bells | u64::from(node.0));
        page::write_four(window, offer::NODE_NAME, Name::new(name).words());
        page::write_four(window, offer::MACHINE_NAME, Name::new(machine).words());
        trial::stores(offer::TRIAL, session).for_each(|(word, value)| write(window, word, value));
        write(window, pulse::HOST + pulse::IDENTITY, session.get());
        write(window, pulse::HOST + pulse::STATE, pulse::OPEN);
        write(window, offer::MAGIC, OFFER_MAGIC);
        let beat = read(window, pulse::HOST + pulse::BEAT);
        Host {
            terms,
            session,
            silence_ns,
            beat,
            answered: 0,
            // Left by an earlier session: a joiner that is alive sends a new request.
            stale_request: read(window, REQUEST),
            grant: None,
            overdue: [0; MAX_OVERDUE],
            joined: None,
        }
    }

    /// Writes a heartbeat. Call it several times within the joiner's silence limit.
    pub fn write_heartbeat<C: CacheMaintenance>(&mut self, window: &SharedMemory<C>) {
        self.beat = self.beat.wrapping_add(1);
        write(window, pulse::HOST + pulse::BEAT, self.beat);
    }

    /// Processes what the joiner wrote.
    pub fn poll<C: CacheMaintenance>(
        &mut self,
        window: &SharedMemory<C>,
        now_ns: u64,
        secret: &impl Secret,
    ) -> HostEvent {
        match &mut self.joined {
            None => self.check_for_claim(window, now_ns, secret),
            Some((attempt, watch)) => {
                let of_joiner = |word| read(window, pulse::JOINER + word);
                let is_its_own = of_joiner(pulse::IDENTITY) == attempt.get();
                if is_its_own && of_joiner(pulse::STATE) == pulse::LEFT {
                    return HostEvent::Lost(Loss::Left);
                }
                // Until it shows its own pulse, the time counts from the answer.
                let beat = if is_its_own { of_joiner(pulse::BEAT) } else { watch.beat };
                match watch.silence_ns(beat, now_ns) {
                    for_ns if for_ns > self.silence_ns => HostEvent::Lost(Loss::Silent { for_ns }),
                    _ => HostEvent::Nothing,
                }
            }
        }
    }

    fn check_for_claim<C: CacheMaintenance>(
        &mut self,
        window: &SharedMemory<C>,
        now_ns: u64,
        secret: &impl Secret,
    ) -> HostEvent {
        self.grant_next(window, now_ns);
        let Some(attempt) = page::nonce(window, claim::ATTEMPT) else { return HostEvent::Nothing };
        if attempt.get() == self.answered {
            return HostEvent::Nothing;
        }
        match &self.grant {
            Some(grant) if grant.attempt == attempt => self.evaluate_claim(window, attempt, now_ns, secret),
            _ => self.check_ungranted_claim(window, attempt, secret),
        }
    }

    /// Grants the claim to the next joiner if it is free or its holder was too slow.
    fn grant_next<C: CacheMaintenance>(&mut self, window: &SharedMemory<C>, now_ns: u64) {
        match &self.grant {
            Some(grant) if now_ns < grant.until_ns => return,
            Some(grant) => {
                let late = grant.attempt;
                self.withdraw_grant(window, late);
            }
            None => {}
        }
        let request = read(window, REQUEST);
        let attempt = Nonce::new(request ^ self.session.get());
        let Some(attempt) = attempt.filter(|_| request != 0 && request != self.stale_request) else { return };
        if attempt.get() != self.answered {
            self.grant = Some(Grant { attempt, until_ns: now_ns + GRANT_TIMEOUT_NS, torn_since_ns: None });
            write(window, offer::GRANTED, attempt.get());
        }
    }

    /// Ends a grant. The joiner may be stopped just before it writes, and write when it resumes.
    fn withdraw_grant<C: CacheMaintenance>(&mut self, window: &SharedMemory<C>, late: Nonce) {
        self.grant = None;
        self.record_overdue(late);
        write(window, offer::GRANTED, 0);
    }

    fn record_overdue(&mut self, attempt: Nonce) {
        if !self.overdue.contains(&attempt.get()) {
            self.overdue.rotate_right(1);
            self.overdue[0] = attempt.get();
        }
    }

    /// Reads the claim of `attempt`. Returns `None` if it changes during the read.
    fn read_claim<C: CacheMaintenance>(&self, window: &SharedMemory<C>, attempt: Nonce) -> Option<ReadClaim> {
        let theirs =
            page::read_terms(window, claim::MAGIC, CLAIM_MAGIC, [claim::CACHE_SEED, claim::EVICT_ONE_IN]);
        let signed = claim::SIGNED.map(|word| read(window, word));
        let proof = page::read_four(window, claim::PROOF);
        let is_sealed = read(window, claim::SEAL) == page::seal(attempt, &signed, &proof);
        let trial = trial::read_words(window, claim::TRIAL, attempt, &self.overdue);
        let again = claim::SIGNED.map(|word| read(window, word));
        let is_same = page::nonce(window, claim::ATTEMPT) == Some(attempt) && signed == again;
        is_same.then_some(ReadClaim { theirs, signed, proof, trial, is_sealed })
    }

    /// Decides on the granted claim.
    fn evaluate_claim<C: CacheMaintenance>(
        &mut self,
        window: &SharedMemory<C>,
        attempt: Nonce,
        now_ns: u64,
        secret: &impl Secret,
    ) -> HostEvent {
        let Some(found) = self.read_claim(window, attempt) else { return HostEvent::Nothing };
        let ReadClaim { theirs, signed, proof, trial, is_sealed } = found;
        if !is_sealed || trial.from_others != 0 {
            // An expired joiner overwrote the claim, and this one will rewrite it.
            let Some(grant) = &mut self.grant else { return HostEvent::Nothing };
            let since_ns = *grant.torn_since_ns.get_or_insert(now_ns);
            grant.until_ns = since_ns + MAX_TORN_NS + GRANT_TIMEOUT_NS;
            if now_ns < since_ns + MAX_TORN_NS {
                return HostEvent::Nothing;
            }
            return self.refuse(window, attempt, RendezvousError::Torn, secret);
        }
        if signed[claim::SIGNED_SESSION] != self.session.get() {
            return HostEvent::Nothing;
        }
        let agreed =
            theirs.and_then(|theirs| WireTerms::from_terms(&self.terms).compare(&theirs)).and_then(|()| {
                let expected = secret.proof(Role::Joiner, self.session, attempt, &signed);
                if expected == proof { Ok(()) } else { Err(RendezvousError::Key) }
            });
        let agreed = agreed.and_then(|()| match ((signed[claim::SIGNED_SHAPE] >> 56) as u8, trial.lost) {
            (FORCED, _) | (0, 0) => Ok(()),
            (0, lost) | (lost, _) => Err(RendezvousError::Unsound { lost }),
        });
        match agreed {
            Ok(()) => HostEvent::Claimed(Claim {
                attempt,
                kernel: signed[claim::SIGNED_KERNEL],
                base_bytes: signed[claim::SIGNED_BASE],
            }),
            Err(error) => self.refuse(window, attempt, error, secret),
        }
    }

    /// Inspects a claim that was not granted. It comes from a joiner that cannot send a valid request: it
    /// swaps bytes, or has another version.
    fn check_ungranted_claim<C: CacheMaintenance>(
        &mut self,
        window: &SharedMemory<C>,
        attempt: Nonce,
        secret: &impl Secret,
    ) -> HostEvent {
        let Some(found) = self.read_claim(window, attempt) else { return HostEvent::Nothing };
        let is_of_session = found.signed[claim::SIGNED_SESSION] == self.session.get();
        match found.theirs {
            Err(error @ RendezvousError::ByteOrder { .. }) => self.refuse(window, attempt, error, secret),
            Err(error @ RendezvousError::Version { .. }) if is_of_session => {
                self.refuse(window, attempt, error, secret)
            }
            _ => HostEvent::Nothing,
        }
    }

    fn refuse<C: CacheMaintenance>(
        &mut self,
        window: &SharedMemory<C>,
        attempt: Nonce,
        error: RendezvousError,
        secret: &impl Secret,
    ) -> HostEvent {
        self.record_overdue(attempt);
        self.answer(window, attempt, error.code(), 0, secret);
        HostEvent::Refused(error)
    }

    /// Gives the node to a joiner, in a new generation. The control channel's memory must have been cleared.
    /// Returns the bells that this joiner rings.
    pub fn accept<C: CacheMaintenance>(
        &mut self,
        window: &SharedMemory<C>,
        claim: Claim,
        generation: NonZeroU16,
        now_ns: u64,
        secret: &impl Secret,
    ) -> Bells {
        let bells = Bells::new(window, Role::Host, self.terms.bells);
        let beat = read(window, pulse::JOINER + pulse::BEAT);
        self.joined = Some((claim.attempt, HeartbeatWatch::new(beat, now_ns)));
        self.answer(window, claim.attempt, ACCEPTED, generation.get(), secret);
        bells
    }

    fn answer<C: CacheMaintenance>(
        &mut self,
        window: &SharedMemory<C>,
        attempt: Nonce,
        verdict: u64,
        generation: u16,
        secret: &impl Secret,
    ) {
        self.answered = attempt.get();
        write(window, offer::ANSWERED, 0);
        write(window, offer::VERDICT, verdict);
        write(window, offer::GENERATION, generation.into());
        let signed = [verdict, generation.into()];
        page::write_four(window, offer::PROOF, secret.proof(Role::Host, self.session, attempt, &signed));
        write(window, offer::ANSWERED, attempt.get());
        // Only after the answer, so that the joiner finds that first.
        if self.grant.as_ref().is_some_and(|grant| grant.attempt == attempt) {
            self.grant = None;
            write(window, offer::GRANTED, 0);
        }
    }

    /// Withdraws the offer, because the root ends or the node is no longer part of the machine.
    pub fn close<C: CacheMaintenance>(&mut self, window: &SharedMemory<C>) {
        write(window, pulse::HOST + pulse::STATE, pulse::LEFT);
        write(window, offer::MAGIC, 0);
    }
}
