use std::time::Duration;

use tombolo_platform::Deadline;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn link() -> (LinkStreams, LinkStreams) {
    let (a, b) = socket::pair(socket::SocketKind::Stream).unwrap();
    (LinkStreams::start(a).unwrap(), LinkStreams::start(b).unwrap())
}

fn read(end: &OwnedFd, length: u64) -> Result<Vec<u8>, Errno> {
    let mut all = Vec::new();
    let outcome = read_whole(end, length, Deadline::after(PATIENCE), |piece| {
        all.extend_from_slice(piece);
        Ok(())
    });
    outcome.map(|()| all).map_err(|error| error.errno)
}

fn write(end: &OwnedFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(end, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::AGAIN) => {
                drop(poll(&[(end.as_fd(), Interest::Write)], Some(Deadline::after(PATIENCE))));
            }
            Err(errno) => panic!("{errno}"),
        }
    }
}

fn hangs_up(end: &OwnedFd) -> bool {
    poll(&[(end.as_fd(), Interest::Read)], Some(Deadline::after(PATIENCE))).unwrap()[0].hung_up
}

#[test]
fn streams_of_one_link_are_independent() {
    let (a, b) = link();
    let ends: Vec<(OwnedFd, OwnedFd)> = (1..40)
        .map(|number| (a.open(ChannelId(number)).unwrap(), b.open(ChannelId(number)).unwrap()))
        .collect();
    std::thread::scope(|scope| {
        for (number, (ours, theirs)) in ends.iter().enumerate() {
            let bytes = vec![number as u8; 100_000 + number];
            let expected = bytes.clone();
            scope.spawn(move || write(ours, &bytes));
            scope.spawn(move || assert_eq!(read(theirs, expected.len() as u64), Ok(expected)));
        }
    });
}

#[test]
fn closing_an_end_closes_the_peer_after_sent_data() {
    let (a, b) = link();
    let (ours, theirs) = (a.open(ChannelId(1)).unwrap(), b.open(ChannelId(1)).unwrap());
    write(&ours, b"last words");
    drop(ours);
    assert_eq!(read(&theirs, 10), Ok(b"last words".to_vec()));
    assert_eq!(read(&theirs, 1), Err(Errno::PIPE));
    poll(&[(a.ended_fd(), Interest::Read)], Some(Deadline::after(PATIENCE))).unwrap();
    assert_eq!(a.take_ended(), [ChannelId(1)]);
}

/// Checks that data sent by an end arrives after it has closed, although it has not read everything.
#[test]
fn sent_data_arrives_after_the_sender_stops_reading() {
    for _ in 0..20 {
        let (a, b) = link();
        let (ours, theirs) = (a.open(ChannelId(1)).unwrap(), b.open(ChannelId(1)).unwrap());
        write(&ours, &[7; 400_000]);
        write(&theirs, b"last words");
        drop(theirs);
        assert_eq!(read(&ours, 10), Ok(b"last words".to_vec()));
    }
}

#[test]
fn failed_end_closes_its_peer() {
    let (a, b) = link();
    let ours = a.open(ChannelId(1)).unwrap();
    b.send_empty(ChannelId(1));
    assert_eq!(read(&ours, 1), Err(Errno::PIPE));
}

#[test]
fn a_file_arrives_whole() {
    let (a, b) = link();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 3) as u8).collect();
    let file = crate::agent::program_from_bytes(&bytes).unwrap();
    a.send_file(ChannelId(7), file);
    let end = b.open(ChannelId(7)).unwrap();
    assert!(read(&end, bytes.len() as u64) == Ok(bytes));
}

#[test]
fn link_loss_ends_all_streams_also_later_ones() {
    let (a, b) = link();
    let (ours, theirs) = (a.open(ChannelId(1)).unwrap(), b.open(ChannelId(1)).unwrap());
    write(&ours, b"x");
    assert_eq!(read(&theirs, 1), Ok(b"x".to_vec()));
    drop(b);
    assert!(hangs_up(&theirs) && hangs_up(&ours));
    assert!(hangs_up(&a.open(ChannelId(2)).unwrap()));
}

#[test]
fn a_link_that_breaks_the_protocol_ends() {
    let (link, far) = socket::pair(socket::SocketKind::Stream).unwrap();
    let a = LinkStreams::start(link).unwrap();
    let ours = a.open(ChannelId(1)).unwrap();
    write(&far, &[0xff; 64]);
    assert!(hangs_up(&ours));
}
