//! Answers of each transport to a peer, or a monitor, that starts incorrectly.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tombolo_base::Random;
use tombolo_link::{ChannelConfig, ChannelLayout, HandshakeError, Refusal, Side};
use tombolo_platform::memory::create_sealed;
use tombolo_platform::socket::{self, SocketKind};
use tombolo_platform::{Deadline, Errno};
use tombolo_ring::Violation;
use tombolo_transport::{ChannelError, EndError, StreamChannel, Transport, TransportExt, shm, window};

use tombolo_conformance::carriers::{UnixStream, WINDOW_OFFSET_BYTES, Window, resources};
use tombolo_conformance::{Carrier, bare_pair, deadline, hello};

/// Returns the result of accepting a proposal with these bytes and descriptors.
fn accepted(bytes: &[u8], fds: &[BorrowedFd<'_>]) -> ChannelError {
    let (a, b) = socket::pair(SocketKind::Stream).unwrap();
    socket::send(&a, bytes, fds).unwrap();
    shm::accept(b, hello(ChannelConfig::default()), deadline()).unwrap_err()
}

fn memory(length_bytes: u64) -> OwnedFd {
    create_sealed("tombolo-test", length_bytes).unwrap()
}

fn needed_bytes() -> u64 {
    ChannelLayout::new(ChannelConfig::default()).length_bytes() as u64
}

#[test]
fn a_proposal_of_the_wrong_form_is_a_violation() {
    let good = hello(ChannelConfig::default()).to_bytes();
    let file = memory(needed_bytes());
    for (bytes, fds) in [(&good[..], 0), (&good[..], 3), (&good[..63], 1), (&good[..1], 1)] {
        let error = accepted(bytes, &vec![file.as_fd(); fds]);
        assert!(matches!(error, ChannelError::Violation(_)), "{error}");
    }
    let error = accepted(&[7; 64], &[file.as_fd()]);
    let refusal = Refusal::NotTombolo { found: 0x0707_0707_0707_0707 };
    assert_eq!(error, ChannelError::Handshake(refusal.into()));
}

#[test]
fn shrinkable_memory_is_refused() {
    let good = hello(ChannelConfig::default()).to_bytes();
    let errno = |fd: BorrowedFd<'_>| match accepted(&good, &[fd]) {
        ChannelError::Os(error) => error.errno,
        error => panic!("{error}"),
    };
    let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
    let loose = rustix::fs::memfd_create("tombolo-test", flags).unwrap();
    rustix::fs::ftruncate(&loose, needed_bytes()).unwrap();
    assert_eq!(errno(loose.as_fd()), Errno::PERM);
    assert_eq!(errno(memory(needed_bytes() - 4096).as_fd()), Errno::OVERFLOW);
    let (socket, _other) = socket::pair(SocketKind::Stream).unwrap();
    assert_eq!(errno(socket.as_fd()), Errno::INVAL);
    rustix::fs::fcntl_add_seals(&loose, rustix::fs::SealFlags::SHRINK | rustix::fs::SealFlags::WRITE)
        .unwrap();
    assert_eq!(errno(loose.as_fd()), Errno::PERM);
}

/// A range that the monitor handed out wrongly is refused before it is mapped.
#[test]
fn a_range_outside_the_window_is_refused() {
    let hello = hello(ChannelConfig::default());
    let lend = |shift: &dyn Fn(&mut window::WindowResources)| {
        let (ends, _other) = Window::ends(hello.config);
        let mut resources = resources(ends, hello.config, None);
        shift(&mut resources);
        window::open(resources, Side::A, hello, Deadline::after(Duration::ZERO)).unwrap_err()
    };
    for offset_bytes in [WINDOW_OFFSET_BYTES + 4096, !4095] {
        let error = lend(&|resources| resources.offset_bytes = offset_bytes);
        assert!(matches!(&error, ChannelError::Os(error) if error.errno == Errno::OVERFLOW), "{error}");
    }
    assert!(matches!(lend(&|resources| resources.offset_bytes = 100), ChannelError::Os(_)));
    // As many bytes as needed, one fewer, one more.
    assert!(matches!(lend(&|resources| resources.length_bytes -= 1), ChannelError::Violation(_)));
    assert!(matches!(lend(&|_| ()), ChannelError::TimedOut(_)));
    assert!(matches!(lend(&|resources| resources.length_bytes += 1), ChannelError::TimedOut(_)));
}

/// Configurations that this side cannot lay out: the proposer must learn the reason too.
#[test]
fn invalid_shape_is_refused_on_both_sides() {
    let ours = hello(ChannelConfig::default());
    for (word, value) in [(1, 48 << 32 | 1), (1, 64 << 32 | 9 << 48 | 1), (2, 3), (2, 1 << 20), (2, u64::MAX)]
    {
        let mut words = ours.to_words();
        words[word] = value;
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        let expected = ours.agree(&words).unwrap_err();
        let (a, b) = socket::pair(SocketKind::Stream).unwrap();
        let file = memory(needed_bytes());
        let header = tombolo_platform::memory::map(&file, 0, 4096).unwrap();
        for (index, word) in words.into_iter().enumerate() {
            header.store_le(index, word, tombolo_base::sync::Ordering::Relaxed);
        }
        header.store_le(7, 1, tombolo_base::sync::Ordering::Release);
        socket::send(&a, &bytes, &[file.as_fd()]).unwrap();
        let error = shm::accept(b, ours, deadline()).unwrap_err();
        assert_eq!(error, ChannelError::Handshake(expected.into()));
        // Line 1 is the acceptor's: its hello, and its disagreement.
        let mut answer = [0; 72];
        header.copy_out(128, &mut answer).unwrap();
        assert_eq!(&answer[..56], &ours.to_bytes()[..56]);
        assert_eq!(&answer[56..], [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        let mut bell = [0; 8];
        assert!(socket::receive(&a, &mut bell).unwrap().length > 0, "and is told of it");
    }
}

#[test]
fn garbage_on_a_stream_is_refused_or_times_out() {
    let mut random = Random::new(0x9a9b);
    let good = hello(ChannelConfig::default()).to_bytes();
    for round in 0..200 {
        let (a, b) = socket::pair(SocketKind::Stream).unwrap();
        let mut bytes: Vec<u8> = good.to_vec();
        bytes.extend_from_slice(&1_u64.to_le_bytes());
        for _ in 0..=random.below(3) {
            let index = random.below(bytes.len() as u64) as usize;
            bytes[index] ^= 1 << random.below(8);
        }
        bytes.truncate(bytes.len() - (round % 3) * 20);
        socket::send(&a, &bytes, &[]).unwrap();
        let soon = Deadline::after(Duration::from_millis(2));
        match StreamChannel::open(b, hello(ChannelConfig::default()), soon) {
            // The flags of a hello and its domain are not compared.
            Ok(_) | Err(ChannelError::Handshake(_) | ChannelError::TimedOut(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let (a, b) = socket::pair(SocketKind::Stream).unwrap();
    let mut bytes = good.to_vec();
    bytes.extend_from_slice(&9_u64.to_le_bytes());
    socket::send(&a, &bytes, &[]).unwrap();
    let error = StreamChannel::open(b, hello(ChannelConfig::default()), deadline()).unwrap_err();
    assert_eq!(error, ChannelError::Handshake(HandshakeError::InvalidWord { found: 9 }));
}

/// Returns a stream whose other end is played by the test.
fn stream() -> (OwnedFd, StreamChannel) {
    let (ours, theirs) = UnixStream::ends(ChannelConfig::default());
    let hello = hello(ChannelConfig::default());
    let mut bytes = hello.to_bytes().to_vec();
    bytes.extend_from_slice(&1_u64.to_le_bytes());
    socket::send(&ours[0], &bytes, &[]).unwrap();
    let channel = UnixStream::open(theirs, Side::B, hello, deadline()).unwrap();
    (ours.into_iter().next().unwrap(), channel)
}

#[test]
fn a_frame_that_is_too_long_is_a_violation_for_good() {
    // The default: 64 slots with 56 bytes of payload each.
    for length in [3_585_u32, 1 << 31, u32::MAX - 1] {
        let (raw, mut channel) = stream();
        assert_eq!(channel.max_message_bytes(), 3_584);
        let mut bytes = b"\x02\0\0\0ok".to_vec();
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&[0; 100]);
        socket::send(&raw, &bytes, &[]).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(channel.try_recv_into(&mut buffer), Ok(Some(2)));
        for _ in 0..3 {
            let error = channel.try_recv_into(&mut buffer).unwrap_err();
            assert_eq!(error, EndError::Broken);
            assert!(channel.readable());
            assert_eq!(channel.try_send(b"x"), Err(EndError::Broken));
            let what = format!("a frame with the invalid length {length}");
            assert_eq!(channel.failure(), Some(ChannelError::Violation(what)));
        }
    }
}

#[test]
fn an_end_inside_a_frame_or_without_a_close_is_a_death() {
    for bytes in [&b""[..], b"\x05", b"\x05\0\0\0abcd", b"\xff\xff\xff"] {
        let (raw, mut channel) = stream();
        socket::send(&raw, bytes, &[]).unwrap();
        drop(raw);
        assert_eq!(channel.try_recv_into(&mut Vec::new()), Err(EndError::PeerDied));
        assert_eq!(channel.try_send(b"x"), Err(EndError::PeerDied));
    }
}

/// It reads ahead only up to a limit; further bytes of the peer stay in the kernel.
#[test]
fn a_peer_that_only_sends_cannot_fill_this_process() {
    let (raw, mut channel) = stream();
    let mut sent = 0;
    let frame = [&3_584_u32.to_le_bytes()[..], &[7; 3_584]].concat();
    for _ in 0..1_000 {
        sent += socket::send(&raw, &frame, &[]).unwrap_or(0);
        assert!(channel.readable());
        channel.finish_sleep(true);
    }
    assert!(sent < 4 << 20, "{sent} bytes were taken");
}

#[test]
fn violations_name_the_cause() {
    let config = ChannelConfig::default();
    let (mut a, b) = bare_pair::<Window>(config);
    // Acknowledges slots that were never sent, in the line of side B.
    let raw = b.coherent().expect("a coherent window").into_raw_memory();
    raw.memory.store_le(7 * 16, 5, tombolo_base::sync::Ordering::Relaxed);
    let error = loop {
        match a.try_send(&[1; 56]) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    // A whole ring was sent before the line was read; the line acknowledges less, which is valid.
    assert_eq!(error, EndError::Full);
    raw.memory.store_le(7 * 16, 1 << 40, tombolo_base::sync::Ordering::Relaxed);
    assert_eq!((0..300).try_for_each(|_| a.try_send(&[1; 56])), Err(EndError::Broken));
    let what = Violation::CreditBeyondSent { credit: 1 << 40, sent: u64::from(config.slots) + 5 };
    assert_eq!(a.failure(), Some(ChannelError::Violation(what.to_string())));
}
