//! The least ping-pong: `tombolo run --on host,arm0 ping_pong.tbi`

use tombolo::{Domain, Error};

fn main() -> Result<(), Error> {
    let job = Domain::attach()?.job()?;
    let mut message = Vec::new();
    if job.rank() == 0 {
        let mut channel = job.channel_to(1)?;
        channel.send(b"ping")?;
        channel.recv_into(&mut message)?;
        println!("{} said {}", channel.peer_node(), String::from_utf8_lossy(&message));
    } else {
        let mut channel = job.channel_to(0)?;
        channel.recv_into(&mut message)?;
        channel.send(b"pong")?;
    }
    Ok(())
}
