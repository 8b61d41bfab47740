//! Files granted to the job: reading, writing, listing, and refusals.

use std::io::{Read, Seek, SeekFrom, Write};
use std::time::Duration;

use tombolo::{BulkOptions, ChannelOptions, Error, PoolOptions, SpawnOptions};
use tombolo_files::{
    FILES_VARIABLE, FileError, FileFault, FileGrant, FileServer, Files, FilesOptions, OpenOptions,
    ServeFilesOptions,
};

use crate::{Outcome, PATIENCE};

fn files() -> Result<Files, FileError> {
    Files::connect(&crate::attach()?)
}

/// FNV-1a hash for comparing contents on two sides.
struct Sum(u64);

impl Sum {
    fn new() -> Sum {
        Sum(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Prints the length and sum of a file, read as a stream.
pub(crate) fn sum(path: &str) -> Outcome {
    let mut reader = files()?.open(path)?.reader();
    let (mut sum, mut length) = (Sum::new(), 0);
    let mut piece = vec![0; 100_000];
    loop {
        let count = reader.read(&mut piece)?;
        if count == 0 {
            break;
        }
        sum.add(&piece[..count]);
        length += count;
    }
    println!("sum {length} {:016x}", sum.0);
    Ok(())
}

/// Prints the contents of files as text.
pub(crate) fn show(paths: &[&str]) -> Outcome {
    let files = files()?;
    for path in paths {
        let map = files.open(path)?.map()?;
        println!("{path}: {}", String::from_utf8_lossy(&map));
    }
    Ok(())
}

/// Prints the result of opening each path.
pub(crate) fn try_open(paths: &[&str]) -> Outcome {
    let files = files()?;
    for path in paths {
        let tried = |options: OpenOptions| match files.open_with(path, options) {
            Ok(file) => match file.read_at(0, &mut [0; 16]) {
                Ok(_) => "opened".to_owned(),
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        println!("{path}: read: {}", tried(OpenOptions::new()));
        println!("{path}: write: {}", tried(OpenOptions::new().write()));
    }
    Ok(())
}

/// Copies a file and checks the copy with every way of reading a file.
pub(crate) fn copy(from: &str, to: &str) -> Outcome {
    let files = files()?;
    let source = files.open(from)?;
    let target = files.open_with(to, OpenOptions::new().create().truncate())?;
    let mut writer = target.writer();
    let copied = std::io::copy(&mut source.reader(), &mut writer)?;
    writer.flush()?;
    target.sync()?;
    check(copied == source.len_bytes()? && copied == target.len_bytes()?, "lengths differ")?;
    let (one, other) = (source.map()?, target.map()?);
    check(one[..] == other[..], "the copy is another")?;
    // Read from the middle, through a mapping, and as a stream with seeks.
    let middle = copied / 2;
    let mut piece = vec![0; 1000.min((copied - middle) as usize)];
    target.read_exact_at(middle, &mut piece)?;
    check(piece[..] == one[middle as usize..][..piece.len()], "the middle is another")?;
    let buffer = target.buffer_at(middle)?;
    buffer.read(0, &mut piece)?;
    check(piece[..] == one[middle as usize..][..piece.len()], "the buffer is another")?;
    drop(buffer);
    let mut reader = target.reader();
    for place in [SeekFrom::End(-5), SeekFrom::Start(middle), SeekFrom::Current(-3), SeekFrom::Start(0)] {
        let at = reader.seek(place)? as usize;
        let mut few = [0; 5];
        reader.read_exact(&mut few)?;
        check(few[..] == one[at..][..5], "a stream that was moved reads something else")?;
    }
    // Changes in a mapping reach the file with `flush`.
    let mut map = target.map_range(middle, 1000.min(copied - middle))?;
    map.range_mut(1..4)?.copy_from_slice(b"new");
    map.flush()?;
    target.read_exact_at(middle, &mut piece[..5])?;
    check(&piece[1..4] == b"new" && piece[0] == one[middle as usize], "the change did not arrive")?;
    target.write_at(middle, &one[middle as usize..][..5])?;
    target.set_len(copied + 10)?;
    check(target.map_range(copied, 10)?[..] == [0; 10], "what was added is not zero")?;
    target.set_len(copied)?;
    println!("copied {copied}");
    Ok(())
}

fn check(holds: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(otherwise) }
}

/// Prints the granted paths and the contents of folders.
pub(crate) fn list(folders: &[&str]) -> Outcome {
    let files = files()?;
    let granted: Vec<_> = files.granted()?.iter().map(|path| path.display().to_string()).collect();
    println!("granted: {}", granted.join(" "));
    for folder in folders {
        let entries = files.list(folder)?;
        let names = entries.iter().map(|entry| {
            format!("{}{}", entry.name.to_string_lossy(), if entry.is_folder { "/" } else { "" })
        });
        let names: Vec<String> = names.collect();
        println!("{folder}: {} names: {}", names.len(), names.join(" "));
        let info = files.stat(folder)?;
        println!("{folder}: {:?}, writable {}", info.kind, info.writable);
    }
    Ok(())
}

/// Reads a file while it is truncated: the reader sees an early end, never a fault or a hang.
pub(crate) fn read_while_it_shrinks(path: &str) -> Outcome {
    let file = files()?.open(path)?;
    let length = file.len_bytes()?;
    let mut reader = file.reader();
    let mut start = vec![0; 4096];
    reader.read_exact(&mut start)?;
    println!("reading");
    std::io::stdin().read_exact(&mut [0])?;
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest)?;
    check((rest.len() as u64) < length - 4096, "all of it was read although it became shorter")?;
    match file.map_range(0, length) {
        Err(FileError::Ended { wanted_bytes, available_bytes, .. }) => {
            println!("ended after {available_bytes} of {wanted_bytes}");
            Ok(())
        }
        other => Err(format!("a map of what is not there: {:?}", other.map(|map| map.len())).into()),
    }
}

/// Keeps a file open and reads it repeatedly until an error occurs.
pub(crate) fn read_for_ever(path: &str) -> Outcome {
    let file = files()?.open(path)?;
    println!("reading");
    let mut piece = vec![0; 3 << 20];
    loop {
        file.read_at(0, &mut piece)?;
    }
}

/// Uses more files, readers and threads at once than there are buffers.
pub(crate) fn many(path: &str) -> Outcome {
    let files = Files::connect_with(&crate::attach()?, &FilesOptions::default().buffers(4096, 4)?)?;
    let expected = files.open(path)?.map()?;
    let mut readers = Vec::new();
    for _ in 0..10 {
        readers.push(files.open(path)?.reader());
    }
    let mut read = vec![Vec::new(); readers.len()];
    // Read a little of each in turn.
    for _ in 0..expected.len().div_ceil(1000) {
        for (reader, read) in readers.iter_mut().zip(&mut read) {
            reader.by_ref().take(1000).read_to_end(read)?;
        }
    }
    check(read.iter().all(|read| read[..] == expected[..]), "a reader read something else")?;
    drop(readers);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| files.open(path).and_then(|file| Ok(file.map()?[..] == expected[..]))))
            .collect();
        threads.into_iter().all(|thread| matches!(thread.join(), Ok(Ok(true))))
    })
    .then_some(())
    .ok_or("a thread read something else")?;
    println!("many were right");
    Ok(())
}

/// Tries to connect to the file server of another job by its name.
pub(crate) fn intrude(name: &str) -> Outcome {
    match Files::connect_with(&crate::attach()?, &FilesOptions::default().server(name)) {
        Err(FileError::NotServed { .. }) => {
            println!("turned away");
            Ok(())
        }
        other => Err(format!("not turned away: {:?}", other.map(|_| ())).into()),
    }
}

/// Prints the name under which its files are served, and waits for the end of its input.
pub(crate) fn tell_name() -> Outcome {
    let files = files()?;
    println!("name {}", std::env::var(FILES_VARIABLE)?);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    drop(files);
    Ok(())
}

/// Serves a file to its children with tight limits: one client, two open files and little memory.
pub(crate) fn serve(path: &str) -> Outcome {
    let domain = crate::attach()?;
    let options = ServeFilesOptions::default().max_clients(1).max_open(2).max_pool_bytes(4 * 4096);
    let server = FileServer::start(&domain, &[FileGrant::read_only(path)], &options)?;
    let start = |words: &[&str]| {
        let options = SpawnOptions::this_image();
        domain.spawn(&options.args(words.iter().copied()).env(FILES_VARIABLE, server.name()))
    };
    let run = |words: &[&str]| start(words)?.wait(PATIENCE);
    println!("within limits: {:?}", run(&["file-limits", path, "4", "4096"])?);
    println!("more memory: {:?}", run(&["file-limits", path, "4", "4160"])?);
    let first = start(&["file-client", "file-client"])?;
    let channel = domain.connect("file-client")?;
    println!("one more: {:?}", run(&["file-limits", path, "4", "4096"])?);
    drop(channel);
    first.wait(PATIENCE)?;
    println!("the next: {:?}", run(&["file-limits", path, "4", "4096"])?);
    // A client that is connected when the server ends gets an error.
    let last = start(&["file-client", "file-client"])?;
    let channel = domain.connect("file-client")?;
    let name = server.name().to_owned();
    drop(server);
    drop(channel);
    println!("the last: {:?}", last.wait(PATIENCE)?);
    let options = FilesOptions::default().server(&name).timeout(Duration::from_secs(1));
    let nobody = Files::connect_with(&domain, &options);
    check(matches!(nobody, Err(FileError::NotServed { .. })), "a server that has ended serves")?;
    Ok(())
}

/// Uses as many buffers and open files as allowed, and checks that one file more is refused.
pub(crate) fn limits(path: &str, buffers: &str, buffer_bytes: &str) -> Outcome {
    let options = FilesOptions::default().buffers(buffer_bytes.parse()?, buffers.parse()?)?;
    let files = Files::connect_with(&crate::attach()?, &options)?;
    let one = files.open(path)?;
    let two = files.open(path)?;
    let Err(FileError::Fault { fault: FileFault::TooManyOpen(2), .. }) = files.open(path) else {
        return Err("a third file was opened".into());
    };
    drop(one);
    check(files.open(path)?.map()?[..] == two.map()?[..], "the same file is another")?;
    Ok(())
}

/// Stays a client of the file server until a peer connects to `name` and closes that channel.
pub(crate) fn client(name: &str) -> Outcome {
    let domain = crate::attach()?;
    let files = Files::connect_with(&domain, &FilesOptions::default().buffers(4096, 4)?)?;
    let listener = domain.export(name)?;
    let mut channel = listener.accept()?;
    let _ = channel.recv_into(&mut Vec::new());
    drop(files);
    Ok(())
}

/// Sends invalid messages to its file server in many ways; each may only end its own channel.
pub(crate) fn hostile(path: &str) -> Outcome {
    let domain = crate::attach()?;
    let good = Files::connect(&domain)?;
    let file = good.open(path)?;
    let expected = file.map()?.to_vec();
    let name = std::env::var(FILES_VARIABLE)?;
    let options = BulkOptions::default().channel(ChannelOptions::default().slots(256)?);
    for nonsense in 0..6 {
        let mut bulk = options.connect(&domain, &name)?;
        let pool = domain.create_pool(&PoolOptions::new(4096, 4))?;
        if nonsense == 5 {
            // A second pool, where one is allowed.
            bulk.assign(&pool)?;
            let refused = bulk.assign(&domain.create_pool(&PoolOptions::new(4096, 4))?);
            check(refused.is_err(), "a second pool was taken")?;
            continue;
        }
        bulk.assign(&pool)?;
        let (one, two) = (pool.take()?, pool.take()?);
        match nonsense {
            0 => bulk.pass(one, b"no message").map_err(Error::from)?,
            1 => bulk.move_to(one, b"").map_err(Error::from)?,
            2 => bulk.move_all(vec![one, two], b"two").map_err(Error::from)?,
            3 => drop(bulk.share(one, b"to read").map_err(Error::from)?),
            // The header of a message with nothing behind it.
            _ => bulk.pass(one, &[0xff; 64]).map_err(Error::from)?,
        }
        let ended = loop {
            match bulk.recv(&mut Vec::new()) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        check(ended.is_peer_gone(), "a channel with nonsense on it lives")?;
        check(file.map()?[..] == expected[..], "the file is another")?;
    }
    println!("nobody else noticed");
    Ok(())
}
