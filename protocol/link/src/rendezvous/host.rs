//! The root's side of the rendezvous.

use core::num::NonZeroU16;

use tombolo_base::{NodeId, SharedMemory};

use super::page::{self, CLAIM_MAGIC, OFFER_MAGIC, ORDER, claim, offer, pulse, read, write};
use super::{
    ACCEPTED, Bells, FORCED, Loss, MAX_BELLS, Name, Nonce, RendezvousError, Role, Said, Secret, Terms, Watch,
    trial,
};

/// What happened on the root's side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostEvent {
    /// Nothing.
    Nothing,
    /// A joiner was refused; the root keeps waiting for others.
    Refused(RendezvousError),
    /// A joiner may have the node: prepare the window, then [`accept`](Host::accept).
    Claimed(Claim),
    /// The joiner that had the node is gone. [`Host::open`] makes a new session.
    Lost(Loss),
}

/// A claim that agrees with the offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    attempt: Nonce,
    /// A number of the kernel that it runs under.
    pub kernel: u64,
    /// Where the window begins in the file that programs on the node map, in bytes.
    pub base_bytes: u64,
}

/// The root's side: one session, from the offer to the loss of the joiner.
#[derive(Debug)]
pub struct Host {
    terms: Terms,
    session: Nonce,
    silence_ns: u64,
    beat: u64,
    /// The last attempt that was answered.
    answered: u64,
    joined: Option<(Nonce, Watch)>,
}

impl Host {
    /// Offers the window for `node` with a fresh `session`. A joiner counts as lost after `silence_ns`
    /// without a beat.
    ///
    /// # Panics
    /// When the window is shorter than its first page.
    #[must_use]
    pub fn open(
        window: &SharedMemory,
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
        let said = Said::of(&terms);
        let bells = u64::from(terms.bells.min(MAX_BELLS)) << 16;
        write(window, offer::SHAPE, page::shape(&said) | bells | u64::from(node.0));
        page::write_four(window, offer::NODE_NAME, Name::new(name).words());
        page::write_four(window, offer::MACHINE_NAME, Name::new(machine).words());
        trial::write_words(window, offer::TRIAL, session);
        write(window, pulse::HOST + pulse::IDENTITY, session.get());
        write(window, pulse::HOST + pulse::STATE, pulse::OPEN);
        write(window, offer::MAGIC, OFFER_MAGIC);
        let beat = read(window, pulse::HOST + pulse::BEAT);
        Host { terms, session, silence_ns, beat, answered: 0, joined: None }
    }

    /// Shows that the root lives. To be called several times in the joiner's limit of silence.
    pub fn beat(&mut self, window: &SharedMemory) {
        self.beat = self.beat.wrapping_add(1);
        write(window, pulse::HOST + pulse::BEAT, self.beat);
    }

    /// Looks at what the joiner wrote.
    pub fn poll(&mut self, window: &SharedMemory, now_ns: u64, secret: &impl Secret) -> HostEvent {
        match &mut self.joined {
            None => self.look_for_claim(window, secret),
            Some((attempt, watch)) => {
                let of_joiner = |word| read(window, pulse::JOINER + word);
                let is_its_own = of_joiner(pulse::IDENTITY) == attempt.get();
                if is_its_own && of_joiner(pulse::STATE) == pulse::LEFT {
                    return HostEvent::Lost(Loss::Left);
                }
                // Until it shows its own pulse the time counts from the answer.
                let beat = if is_its_own { of_joiner(pulse::BEAT) } else { watch.beat };
                match watch.silence_ns(beat, now_ns) {
                    for_ns if for_ns > self.silence_ns => HostEvent::Lost(Loss::Silent { for_ns }),
                    _ => HostEvent::Nothing,
                }
            }
        }
    }

    fn look_for_claim(&mut self, window: &SharedMemory, secret: &impl Secret) -> HostEvent {
        let Some(attempt) = page::nonce(window, claim::ATTEMPT) else { return HostEvent::Nothing };
        if attempt.get() == self.answered {
            return HostEvent::Nothing;
        }
        let found = read(window, claim::MAGIC);
        let is_swapped = found == CLAIM_MAGIC.swap_bytes();
        let session = read(window, claim::SESSION);
        if !is_swapped && (found != CLAIM_MAGIC || session != self.session.get()) {
            // Of an earlier session, or half written.
            return HostEvent::Nothing;
        }
        let theirs = page::said(window, claim::MAGIC, CLAIM_MAGIC);
        let said: [u64; claim::SAID.end - claim::SAID.start] =
            core::array::from_fn(|index| read(window, claim::SAID.start + index));
        let proof = page::read_four(window, claim::PROOF);
        let lost_here = trial::lost(window, claim::TRIAL, attempt);
        // Two joiners may write at once; the next look will find one of them whole.
        let again = core::array::from_fn(|index| read(window, claim::SAID.start + index));
        if page::nonce(window, claim::ATTEMPT) != Some(attempt) || said != again {
            return HostEvent::Nothing;
        }
        let agreed = theirs.and_then(|theirs| Said::of(&self.terms).compare(&theirs));
        let agreed = agreed.and_then(|()| {
            let expected = secret.proof(Role::Joiner, self.session, attempt, &said);
            if expected == proof { Ok(()) } else { Err(RendezvousError::Key) }
        });
        let agreed =
            agreed.and_then(|()| match ((said[claim::SHAPE - claim::SAID.start] >> 56) as u8, lost_here) {
                (FORCED, _) | (0, 0) => Ok(()),
                (0, lost) | (lost, _) => Err(RendezvousError::Unsound { lost }),
            });
        match agreed {
            Ok(()) => {
                let word = |index: usize| said[index - claim::SAID.start];
                HostEvent::Claimed(Claim {
                    attempt,
                    kernel: word(claim::KERNEL),
                    base_bytes: word(claim::BASE),
                })
            }
            Err(error) => {
                self.answer(window, attempt, error.code(), 0, secret);
                HostEvent::Refused(error)
            }
        }
    }

    /// Gives the node to a joiner, in a new generation. The control channel's memory must have been cleared.
    /// Returns the bells, which hear what this joiner rings.
    pub fn accept(
        &mut self,
        window: &SharedMemory,
        claim: Claim,
        generation: NonZeroU16,
        now_ns: u64,
        secret: &impl Secret,
    ) -> Bells {
        let bells = Bells::new(window, Role::Host, self.terms.bells);
        let beat = read(window, pulse::JOINER + pulse::BEAT);
        self.joined = Some((claim.attempt, Watch::new(beat, now_ns)));
        self.answer(window, claim.attempt, ACCEPTED, generation.get(), secret);
        bells
    }

    fn answer(
        &mut self,
        window: &SharedMemory,
        attempt: Nonce,
        verdict: u64,
        generation: u16,
        secret: &impl Secret,
    ) {
        self.answered = attempt.get();
        write(window, offer::ANSWERED, 0);
        write(window, offer::VERDICT, verdict);
        write(window, offer::GENERATION, generation.into());
        let said = [verdict, generation.into()];
        page::write_four(window, offer::PROOF, secret.proof(Role::Host, self.session, attempt, &said));
        write(window, offer::ANSWERED, attempt.get());
    }

    /// Withdraws the offer: the root ends, or the node is no longer part of the machine.
    pub fn close(&mut self, window: &SharedMemory) {
        write(window, pulse::HOST + pulse::STATE, pulse::LEFT);
        write(window, offer::MAGIC, 0);
    }
}
