//! `tombolo web`: access control, views, changes, and behaviour when the machine goes down.

use std::process::Command;

use serde_json::{Value, json};
use tombolo_e2e::web::{Live, Web};
use tombolo_e2e::{Machine, MachineFile, eventually, host_actor, unsupported};

fn path(path: &std::path::Path) -> &str {
    path.to_str().expect("a path of text")
}

/// Starts a server with `--steer`, and returns the path of the test program.
fn start_steering(machine: &Machine) -> (Web, String) {
    let actor = host_actor();
    let web = Web::start(machine, &["--steer", "--images", path(&actor)]);
    (web, path(&actor).to_owned())
}

fn start(web: &Web, image: &str, words: &[&str]) -> String {
    let started = web.post("/api/start", &json!({"image": image, "node": "host", "arguments": words})).ok();
    started["domain"].as_str().expect("an id").to_owned()
}

/// Collects a domain's output until its end; also returns whether it contained invalid text.
fn output(live: &mut Live, id: &str) -> (String, bool) {
    let (mut text, mut binary) = (String::new(), false);
    let _ = live.until("the end of the output", |message| {
        if message["id"] == id {
            assert!(message["error"].is_null(), "{message}");
            for piece in message["pieces"].as_array().into_iter().flatten() {
                text.push_str(piece["text"].as_str().expect("a text"));
            }
            binary |= message["binary"] == true;
        }
        message["id"] == id && message["ended"] == true
    });
    (text, binary)
}

#[test]
fn requests_without_the_token_are_refused() {
    let machine = Machine::up(&MachineFile::host());
    let web = Web::start(&machine, &[]);
    let with = |without: &[&str], more: &[(&str, &str)]| {
        let mut headers = web.head(without);
        headers.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        headers
    };
    let status = |path: &str, headers: &[(String, String)]| web.ask("GET", path, headers, b"").status;
    assert_eq!(status("/", &with(&[], &[])), 200);
    let bearer = format!("Bearer {}", web.token);
    assert_eq!(status("/metrics", &with(&["Cookie", "Origin"], &[("Authorization", &bearer)])), 200);

    // No cookie, a cookie for another port, and a cookie with a wrong token.
    for cookie in
        ["", "tombolo-1=0", &format!("tombolo-{}=0123456789abcdef0123456789abcdef", web.address.port())]
    {
        for path in
            ["/", "/live", "/metrics", "/api/images", "/assets/index.html", "/nothing", "/trace?seconds=1"]
        {
            assert_eq!(status(path, &with(&["Cookie"], &[("Cookie", cookie)])), 401, "{path} {cookie}");
        }
    }
    let refused = web.ask("GET", "/", &with(&["Cookie"], &[]), b"");
    assert!(refused.text().contains("open the link"), "{}", refused.text());
    assert!(!refused.text().contains(&web.token), "it tells the token");

    // The login link sets the cookie and redirects to an address without the token.
    let login = web.ask("GET", &format!("/?token={}", web.token), &with(&["Cookie", "Origin"], &[]), b"");
    assert_eq!(login.status, 303);
    assert!(
        login.head.contains("location: /\r\n") && login.head.contains("httponly; samesite=strict"),
        "{}",
        login.head
    );
    assert_eq!(status("/?token=0", &with(&["Cookie"], &[])), 401);

    // Other host names and other sites.
    let port = web.address.port();
    for host in [format!("evil.example:{port}"), "127.0.0.1".into(), format!("127.0.0.1:{}", port ^ 1)] {
        assert_eq!(status("/", &with(&["Host"], &[("Host", &host)])), 421, "{host}");
    }
    for origin in ["http://evil.example", "null", &format!("https://{}", web.address)] {
        assert_eq!(status("/", &with(&["Origin"], &[("Origin", origin)])), 403, "{origin}");
    }
    let upgrade = [("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "eA==")];
    assert_eq!(status("/live", &with(&["Origin"], &upgrade)), 403);

    // Security headers of every answer, including refusals.
    for path in ["/", "/metrics", "/nothing"] {
        let answer = web.get(path);
        assert!(
            answer.head.contains("content-security-policy: default-src 'none'; script-src 'self'"),
            "{}",
            answer.head
        );
        assert!(answer.head.contains("x-content-type-options: nosniff"), "{}", answer.head);
    }
    assert!(refused.head.contains("content-security-policy: default-src 'none'"), "{}", refused.head);
    assert_eq!(web.stop().status, 0);
    machine.down();
}

#[test]
fn another_user_of_this_computer_is_refused() {
    let machine = Machine::up(&MachineFile::host());
    let web = Web::start(&machine, &[]);
    // The kernel's socket table identifies the user of a connection. This request has everything except the
    // right user.
    let ask = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET / HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\nConnection: close\\r\\n\
         Cookie: tombolo-{port}={token}\\r\\n\\r\\n' >&3; cat <&3",
        port = web.address.port(),
        token = web.token
    );
    let own = Command::new("bash").args(["-c", &ask]).output().expect("bash");
    assert!(own.stdout.starts_with(b"HTTP/1.1 200 "), "{own:?}");
    let other = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "bash", "-c", &ask])
        .current_dir("/")
        .output();
    match other {
        Ok(other) if other.stdout.starts_with(b"HTTP/") => {
            assert!(other.stdout.starts_with(b"HTTP/1.1 403 "), "{}", String::from_utf8_lossy(&other.stdout));
        }
        Ok(other) => {
            unsupported(&format!("a request of another user: {}", String::from_utf8_lossy(&other.stderr)));
        }
        Err(error) => unsupported(&format!("a request of another user: setpriv: {error}")),
    }
    assert_eq!(web.stop().status, 0);
    machine.down();
}

#[test]
fn read_only_server_changes_nothing() {
    let machine = Machine::up(&MachineFile::host());
    let job = machine.start_actor("host", &["sleep", "600"]);
    job.wait_for("sleeping");
    let web = Web::start(&machine, &[]);
    let (id, _) = machine.domains_on("host")[0].clone();
    let bodies = [
        ("/api/kill", json!({"domain": id})),
        ("/api/stop", json!({"domain": id, "grace_ms": 0})),
        ("/api/pause", json!({"domain": id})),
        ("/api/start", json!({"image": "x", "node": null, "arguments": []})),
        ("/api/restart", json!({"node": "host"})),
        ("/api/frequency", json!({"node": "host", "governor": "powersave"})),
        ("/nothing", json!({})),
    ];
    for (path, body) in bodies {
        let answer = web.post(path, &body);
        assert_eq!(answer.status, 403, "{path}");
        assert!(answer.json()["error"].as_str().expect("a text").contains("--steer"), "{}", answer.text());
    }
    assert_eq!(web.get("/trace?seconds=1").status, 403);
    let mut live =
        web.watch(&json!([{"id": "m", "view": "machine"}, {"id": "d", "view": "domain", "domain": id}]));
    let steers = live.row("m", "the machine", |_| true);
    assert_eq!((&steers["steer"], &steers["monitor"]), (&json!(false), &json!("connected")));
    let row = live.row("d", "the domain", |row| row["key"] == id.as_str());
    assert_eq!((&row["paused"], &row["exit"]), (&json!(false), &Value::Null));
    drop(live);
    assert_eq!(web.stop().status, 0);
    drop(job);
    machine.down();
}

#[test]
fn a_domain_is_started_paused_resumed_repeated_and_ended() {
    let machine = Machine::up(&MachineFile::host());
    let (web, actor) = start_steering(&machine);
    let images = web.get("/api/images").ok();
    assert_eq!(images["images"][0]["file"], actor.as_str(), "{images}");
    let best = web.get(&format!("/api/suggest?image={actor}")).ok();
    assert_eq!(best["node"], "host", "{best}");

    let id = start(&web, &actor, &["sleep", "600"]);
    let watches = json!([
        {"id": "d", "view": "domains", "state": "all", "filter": "actor", "sort": "since", "descending": true},
        {"id": "o", "view": "output", "domain": id},
        {"id": "e", "view": "events"},
        {"id": "h", "view": "history", "part": "node:host", "measure": "load", "step_ms": 1000},
    ]);
    let mut live = web.watch(&watches);
    let of = |row: &Value, id: &str| row["key"] == id;
    let row = live.row("d", "the new domain", |row| of(row, &id));
    assert_eq!(
        (&row["program"], &row["steerable"], &row["node"]),
        (&json!("actor"), &json!(true), &json!("host"))
    );
    let _ =
        live.until("its output", |message| message["id"] == "o" && message.to_string().contains("sleeping"));
    let _ = live.row("h", "the past of the node", |row| row["points"].is_array());

    for (path, paused) in [("/api/pause", true), ("/api/resume", false)] {
        assert_eq!(web.post(path, &json!({"domain": id})).ok()["domain"], id.as_str());
        let _ = live.row("d", path, |row| of(row, &id) && row["paused"] == paused);
    }
    let again = web.post("/api/repeat", &json!({"domain": id, "node": null})).ok();
    let again = again["domain"].as_str().expect("an id").to_owned();
    let _ = live.row("d", "the same again", |row| of(row, &again));
    assert_eq!(web.post("/api/kill", &json!({"domain": id})).status, 200);
    let row = live.row("d", "its end", |row| of(row, &id) && !row["exit"].is_null());
    assert_eq!((&row["exit"], &row["failed"]), (&json!("killed by SIGKILL"), &json!(true)));
    assert_eq!(web.post("/api/stop", &json!({"domain": again, "grace_ms": 60000})).status, 200);
    let row = live.row("d", "the end of the other", |row| of(row, &again) && !row["exit"].is_null());
    assert_eq!(row["exit"], "killed by SIGTERM");
    let _ = live
        .row("e", "that it is told", |row| row["what"] == "domain ended" && row["domain"] == again.as_str());

    // Impossible requests get an error.
    assert_eq!(web.post("/api/kill", &json!({"domain": id})).status, 404);
    assert_eq!(web.post("/api/pause", &json!({"domain": "x"})).status, 404);
    assert_eq!(web.post("/api/start", &json!({"image": "/bin/true", "node": null})).status, 404);
    assert_eq!(web.post("/api/start", &json!({"image": actor, "node": "mars"})).status, 404);
    assert_eq!(web.post("/api/kill", &json!({"domain": 7})).status, 400);
    assert_eq!(web.post("/api/kill", &json!({"domain": id, "all": true})).status, 400);
    let long = "x".repeat(100 << 10);
    assert_eq!(web.post("/api/kill", &json!({"domain": long})).status, 413);
    let plain = web.head(&[]);
    assert_eq!(web.ask("POST", "/api/kill", &plain, b"{}").status, 415);
    assert_eq!(web.get("/api/kill").status, 405);

    // Domains started by the server end with it.
    let _ = start(&web, &actor, &["sleep", "600"]);
    assert_eq!(web.stop().status, 0);
    assert!(eventually(|| machine.domains_on("host").is_empty()), "it goes on without who started it");
    machine.down();
}

#[test]
fn page_shows_output_as_plain_text() {
    let machine = Machine::up(&MachineFile::host());
    let (web, actor) = start_steering(&machine);
    let hostile = "</script><img src=x onerror=alert(1)>\u{202e}\u{1b}[2J\"&";
    let id = start(&web, &actor, &["tell", hostile]);
    let mut live = web.watch(
        &json!([{"id": "o", "view": "output", "domain": id}, {"id": "d", "view": "domain", "domain": id}]),
    );
    let row = live.row("d", "the domain", |row| row["key"] == id.as_str());
    assert!(row["arguments"].as_str().expect("a text").contains(hostile), "{row}");
    let (text, binary) = output(&mut live, "o");
    assert!(text.contains("argument 2") && !binary, "{text}");

    // Invalid bytes and more output than is kept: both are reported, and the server continues.
    let id = start(&web, &actor, &["flood", "stdout", "3000000"]);
    live.subscribe(&json!([{"id": "f", "view": "output", "domain": id}]));
    let (text, binary) = output(&mut live, "f");
    assert!(binary && text.contains('\u{fffd}'), "{} characters", text.len());
    assert_eq!(web.get("/").status, 200);

    // Invalid messages get an error and do not end the connection.
    for (said, about) in [
        ("{", "invalid request"),
        ("[]", "invalid request"),
        (r#"{"watch": [{"view": "nodes"}]}"#, "needs an `id`"),
        (r#"{"watch": [{"id": "x", "view": "everything"}]}"#, "unknown variant"),
        (r#"{"watch": [{"id": "x", "view": "domain", "domain": "../1"}]}"#, "no domain"),
        (r#"{"watch": [{"id": "x", "view": "node", "node": "mars"}]}"#, "no node"),
    ] {
        live.send_text(said);
        let _ =
            live.until(about, |message| message["error"].as_str().is_some_and(|text| text.contains(about)));
    }
    let many: Vec<Value> = (0..40).map(|index| json!({"id": format!("w{index}"), "view": "nodes"})).collect();
    live.subscribe(&json!(many));
    let _ = live.until("that these are too many", |message| {
        message["error"].as_str().is_some_and(|text| text.contains("32"))
    });
    for path in
        ["/assets/..%2f..%2fCargo.toml", "/assets/../index.html", "/api/results/..%2fx", "/api/results/x"]
    {
        assert_eq!(web.get(path).status, 404, "{path}");
    }
    drop(live);
    assert_eq!(web.stop().status, 0);
    machine.down();
}

#[test]
fn server_survives_monitor_restart() {
    let mut machine = Machine::up(&MachineFile::host());
    let (web, _) = start_steering(&machine);
    let mut live = web.watch(&json!([{"id": "m", "view": "machine"}, {"id": "n", "view": "nodes"}]));
    let _ = live.row("m", "the machine", |row| row["monitor"] == "connected" && row["nodes_up"] == 1);
    let _ = live.row("n", "its node", |row| row["name"] == "host");
    machine.kill(machine.pid_of("host"));
    let gone = live.row("m", "that the monitor is gone", |row| row["monitor"] == "gone");
    assert!(gone["trouble"].as_str().expect("a text").contains("is gone"), "{gone}");
    assert_eq!(gone["nodes"], 1, "what was seen last stays: {gone}");
    let metrics = web.get("/metrics").text();
    assert!(
        metrics.contains(&format!("tombolo_monitor_up{{machine=\"{}\"}} 0\n", machine.name())),
        "{metrics}"
    );
    assert_eq!(web.post("/api/pause", &json!({"domain": "0.1.9"})).status, 503);
    machine.bring_up();
    let _ = live.row("m", "that it is back", |row| row["monitor"] == "connected");
    assert!(eventually(|| web.get("/metrics").text().contains("tombolo_node_up{node=\"host\"")));
    drop(live);
    assert_eq!(web.stop().status, 0);
    machine.down();
}

#[test]
fn metrics_and_traces_are_exported() {
    let machine = Machine::up(&MachineFile::host());
    let (web, actor) = start_steering(&machine);
    let server = machine.start_actor("host", &["hold", "traffic"]);
    server.wait_for("serving");
    let _ = start(&web, &actor, &["lose-peer", "recv", "traffic"]);
    let has_channel = || web.get("/metrics").text().contains("tombolo_channel_messages_total{channel=\"");
    let found = eventually(has_channel);
    let metrics = web.get("/metrics");
    assert!(metrics.head.contains("content-type: text/plain; version=0.0.4"), "{}", metrics.head);
    let text = metrics.text();
    assert!(found, "{text}");
    let mut families: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let name = rest.split(' ').next().expect("a name");
            assert!(!families.contains(&name), "{name} comes twice");
            families.push(name);
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let name = series.split('{').next().expect("a name");
        assert_eq!(families.last(), Some(&name), "{line}");
        assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
    }
    for name in ["tombolo_node_up", "tombolo_domain_cpu_ratio", "process_cpu_seconds_total"] {
        assert!(families.contains(&name), "{name} is missing:\n{text}");
    }
    assert_eq!(web.get("/trace?seconds=0").status, 400);
    assert_eq!(web.get("/trace").status, 400);
    let trace = web.get("/trace?seconds=1");
    assert_eq!(trace.status, 200, "{}", trace.text());
    assert!(trace.head.contains(".pftrace"), "{}", trace.head);
    // A Perfetto packet: field 1, length-delimited.
    assert_eq!(trace.body.first(), Some(&0x0a));
    assert!(!machine.json(&["channels"]).to_string().is_empty());
    assert_eq!(web.stop().status, 0);
    drop(server);
    machine.down();
}

#[test]
fn slow_connections_do_not_block_the_server() {
    let machine = Machine::up(&MachineFile::host());
    let web = Web::start(&machine, &[]);
    // Each idle connection occupies one of the server's slots.
    let held: Vec<_> = (0..64).map(|_| web.connect()).collect();
    let full = eventually(|| web.get("/").status == 503);
    assert!(full, "the 65th is answered");
    drop(held);
    assert!(eventually(|| web.get("/").status == 200), "places do not come back");
    // A page that does not read blocks neither other pages nor the end of the server.
    let _sleeping = web.watch(&json!([{"id": "n", "view": "nodes"}, {"id": "m", "view": "machine"}]));
    assert_eq!(web.get("/").status, 200);
    assert_eq!(web.stop().status, 0);
    machine.down();
}

#[test]
fn invalid_command_line_is_refused() {
    let machine = Machine::new(&MachineFile::host());
    machine.tombolo(["web"]).fails_with(1, &["is not up"]);
    let machine = Machine::up(&MachineFile::host());
    machine.tombolo(["web", "--bind", "0.0.0.0"]).fails_with(2, &["is not a loopback address"]);
    machine.tombolo(["web", "--port", "70000"]).fails_with(2, &["port"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    machine.tombolo(["web", "--port", &port]).fails_with(1, &["cannot listen on 127.0.0.1"]);
    machine.down();
}
