//! `tombolo web`, and a client that sends the page's requests.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{Finished, Machine, PATIENCE, Running};

/// A running server, with its address and token.
pub struct Web {
    running: Running,
    /// The address that it listens on.
    pub address: SocketAddr,
    /// The token that it requires.
    pub token: String,
}

/// A complete HTTP response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Status line and headers, in lower case.
    pub head: String,
    /// Body of the response, without chunk headers.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    #[track_caller]
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.head, self.text()))
    }

    /// Asserts that the status is 200 and returns the body as JSON.
    #[track_caller]
    #[must_use]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}\n{}", self.head, self.text());
        self.json()
    }
}

impl Web {
    /// Starts a server for a machine on an unused port.
    #[track_caller]
    #[must_use]
    pub fn start(machine: &Machine, words: &[&str]) -> Web {
        let running = machine.start(["web", "--json", "--port", "0"].iter().chain(words));
        let said: Value = serde_json::from_str(&running.wait_for("}\n")).expect("JSON");
        let text = |key: &str| said[key].as_str().expect("a text").to_owned();
        let address = text("address").trim_start_matches("http://").parse().expect("an address");
        Web { running, address, token: text("token") }
    }

    /// Returns the headers that the page sends, except those listed in `without`.
    #[must_use]
    pub fn head(&self, without: &[&str]) -> Vec<(String, String)> {
        let all = [
            ("Host", self.address.to_string()),
            ("Origin", format!("http://{}", self.address)),
            ("Cookie", format!("tombolo-{}={}", self.address.port(), self.token)),
        ];
        let kept = all.into_iter().filter(|(name, _)| !without.contains(name));
        kept.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Opens a connection to the server.
    #[must_use]
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time is no mistake");
        stream
    }

    /// Sends a request with exactly these headers.
    #[track_caller]
    #[must_use]
    pub fn ask(&self, method: &str, path: &str, headers: &[(String, String)], body: &[u8]) -> Answer {
        let mut stream = self.connect();
        let mut text =
            format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
        text.push_str("\r\n");
        // A server that refuses early may close before it has read everything.
        let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.write_all(body));
        let mut all = Vec::new();
        if let Err(error) = stream.read_to_end(&mut all) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{method} {path}: {error}");
        }
        parse(&all).unwrap_or_else(|| panic!("{method} {path}: {:?}", String::from_utf8_lossy(&all)))
    }

    /// Sends a GET request with the page's headers.
    #[track_caller]
    #[must_use]
    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &self.head(&[]), b"")
    }

    /// Sends a POST request with the page's headers.
    #[track_caller]
    #[must_use]
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        let mut headers = self.head(&[]);
        headers.push(("Content-Type".into(), "application/json".into()));
        self.ask("POST", path, &headers, body.to_string().as_bytes())
    }

    /// Opens the page's WebSocket and subscribes to `watches`.
    #[track_caller]
    #[must_use]
    pub fn watch(&self, watches: &Value) -> Live {
        let mut stream = self.connect();
        let mut text = "GET /live HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            .to_owned();
        self.head(&[]).iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
        text.push_str("\r\n");
        stream.write_all(text.as_bytes()).expect("it reads");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("an answer");
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        // The accept value of RFC 6455 for this key.
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        let mut live = Live { stream, rows: BTreeMap::new(), passed_over: VecDeque::new() };
        live.subscribe(watches);
        live
    }

    /// Returns the process id of the server.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.running.pid()
    }

    /// Stops the server with SIGINT, as Ctrl-C does.
    #[track_caller]
    #[must_use]
    pub fn stop(self) -> Finished {
        self.running.signal(Signal::INT);
        self.running.finish()
    }
}

/// Parses a complete HTTP response.
fn parse(all: &[u8]) -> Option<Answer> {
    let end = all.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&all[..end]).to_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let mut body = all[end + 4..].to_vec();
    if head.contains("transfer-encoding: chunked") {
        body = unchunked(&body)?;
    }
    Some(Answer { status, head, body })
}

fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).ok()?, 16).ok()?;
        rest = &rest[line + 2..];
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..length)?);
        rest = rest.get(length + 2..)?;
    }
}

/// A WebSocket client with the rows received so far, by view and key.
pub struct Live {
    stream: TcpStream,
    rows: BTreeMap<(String, String), Value>,
    /// Messages that arrived while [`row`](Self::row) waited; [`until`](Self::until) looks at them first.
    passed_over: VecDeque<Value>,
}

impl Live {
    /// Subscribes to `watches`, in place of the previous subscription.
    pub fn subscribe(&mut self, watches: &Value) {
        self.send_text(&json!({ "watch": watches }).to_string());
    }

    /// Sends a text message with arbitrary content.
    pub fn send_text(&mut self, text: &str) {
        self.frame(1, text.as_bytes());
    }

    fn frame(&mut self, code: u8, bytes: &[u8]) {
        let mut frame = vec![0x80 | code];
        match bytes.len() {
            short @ 0..126 => frame.push(0x80 | short as u8),
            middle @ 126..0x1_0000 => {
                frame.push(0x80 | 126);
                frame.extend((middle as u16).to_be_bytes());
            }
            long => {
                frame.push(0x80 | 127);
                frame.extend((long as u64).to_be_bytes());
            }
        }
        // A mask of zeros leaves the payload unchanged.
        frame.extend([0; 4]);
        frame.extend(bytes);
        self.stream.write_all(&frame).expect("it reads");
    }

    /// Returns the next message, or `None` if the stream was closed.
    ///
    /// # Panics
    /// When nothing comes in time.
    #[track_caller]
    #[must_use]
    pub fn next_message(&mut self) -> Option<Value> {
        loop {
            let mut head = [0; 2];
            match self.stream.read_exact(&mut head) {
                Ok(()) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) =>
                {
                    return None;
                }
                Err(error) => panic!("nothing came: {error}"),
            }
            let length = match head[1] & 0x7f {
                126 => u64::from(u16::from_be_bytes(self.bytes())),
                127 => u64::from_be_bytes(self.bytes()),
                short => u64::from(short),
            };
            let mut body = vec![0; usize::try_from(length).expect("it fits")];
            self.stream.read_exact(&mut body).expect("a whole frame");
            match head[0] & 0x0f {
                1 => {
                    let message = serde_json::from_slice(&body).expect("JSON");
                    self.apply_update(&message);
                    return Some(message);
                }
                8 => return None,
                9 => self.frame(10, &body),
                _ => {}
            }
        }
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).expect("a whole frame");
        bytes
    }

    /// Returns the first message that satisfies `is`, among those passed over by [`row`](Self::row) and those
    /// that still arrive.
    #[track_caller]
    #[must_use]
    pub fn until(&mut self, what: &str, mut is: impl FnMut(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        let mut last = Value::Null;
        while Instant::now() < until {
            let message = self.passed_over.pop_front().or_else(|| self.next_message());
            let message = message.unwrap_or_else(|| panic!("closed before {what}; last: {last}"));
            if is(&message) {
                return message;
            }
            last = message;
        }
        panic!("not {what}; last: {last}")
    }

    /// Applies the row updates of a message, as the page does.
    fn apply_update(&mut self, message: &Value) {
        let id = message["id"].as_str().unwrap_or_default().to_owned();
        if message["full"] == true {
            self.rows.retain(|(view, _), _| *view != id);
        }
        for row in message["set"].as_array().into_iter().flatten() {
            let key = row["key"].as_str().expect("each row has a key").to_owned();
            self.rows.insert((id.clone(), key), row.clone());
        }
        for key in message["gone"].as_array().into_iter().flatten() {
            self.rows.remove(&(id.clone(), key.as_str().expect("a key").to_owned()));
        }
    }

    /// Receives messages until a row of view `id` satisfies `is`, and returns that row.
    #[track_caller]
    #[must_use]
    pub fn row(&mut self, id: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut rows = self.rows.iter().filter(|((view, _), _)| view == id).map(|(_, row)| row);
            if let Some(row) = rows.find(|row| is(row)) {
                return row.clone();
            }
            assert!(Instant::now() < until, "not {what}; there is: {:?}", self.rows);
            let message = self.next_message();
            let message =
                message.unwrap_or_else(|| panic!("closed before {what}; there is: {:?}", self.rows));
            self.passed_over.push_back(message);
        }
    }
}
