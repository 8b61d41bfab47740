//! Requests to hubs, their answers, and the files that declare and place hubs.

use tombolo_hub::{
    Answer, BatchBuf, Client, Description, Fault, Hubs, Kind, Limits, Operation, Outcome, Request, Taken,
};
use tombolo_hubs::plan::{Application, Plan, Topology, from_argument, to_argument};

use crate::read::Choices;

/// Feeds hubs of all kinds the requests of three clients, with deaths and timeouts between them.
pub(super) fn hubs(input: &[u8]) {
    let mut choices = Choices::new(input);
    let mut hubs = Hubs::new(Limits { requests_per_client: 4, offer_ns: 1000 });
    for kind in Kind::ALL {
        hubs.add(Description::new(kind.name(), kind)).expect("it is a good description");
    }
    (1..=3).for_each(|client| hubs.add_client(Client(client), client));
    let mut now = 0;
    while !choices.is_empty() {
        let what = choices.byte();
        let client = Client(u64::from(what % 3) + 1);
        now += u64::from(what) * 100;
        hubs.tick(now);
        let piece = choices.piece();
        let Ok(request) = Request::decode(piece) else { continue };
        let mut again = Vec::new();
        request.encode(&mut again);
        assert_eq!(again, piece, "what is decoded is what would be encoded");
        if hubs.request(&|| now, client, &request).is_err() || what > 250 {
            hubs.remove_client(now, client);
            hubs.add_client(client, 0);
        }
        for (what, count) in hubs.resource_counts() {
            assert!(count <= 24, "{count} {what}");
        }
        drop(hubs.take_outputs());
    }
    (1..=3).for_each(|client| hubs.remove_client(now, Client(client)));
    assert!(hubs.resource_counts().iter().all(|(_, count)| *count == 0), "{:?}", hubs.resource_counts());
}

pub(super) fn hubs_seeds() -> Vec<Vec<u8>> {
    let request = |number, hub, tentative, operation| {
        let request = Request { number, hub, priority: 9, tentative, timeout_us: 1000, operation };
        let mut message = Vec::new();
        request.encode(&mut message);
        message
    };
    let mut batch = BatchBuf::new();
    assert!(batch.push(b"one") && batch.push(b"two"));
    let values = batch.batch().expect("it has two values");
    let open = Operation::Open { name: "fifo", kind: Some(Kind::Fifo), value_type: 0 };
    let messages = [
        (0, request(1, 0, false, open)),
        (0, request(2, 1, false, Operation::Put { value: b"value" })),
        (1, request(1, 1, true, Operation::Get)),
        (1, request(1, 0, false, Operation::Claim { offer: 1 })),
        (2, request(1, 4, false, Operation::Get)),
        (0, request(3, 4, false, Operation::Get)),
        (2, request(2, 4, false, Operation::GiveBack { token: 1 })),
        (1, request(2, 1, false, Operation::Close)),
        (0, request(4, 0, false, Operation::Status)),
        (0, request(5, 1, false, Operation::PutMany { values })),
        (1, request(3, 1, false, Operation::GetMany { max_values: 2 })),
    ];
    let mut all = Vec::new();
    for (client, message) in messages {
        all.extend([client, message.len() as u8, 0]);
        all.extend(message);
    }
    vec![all]
}

pub(super) fn answer(input: &[u8]) {
    if let Ok(answer) = Answer::decode(input) {
        let mut again = Vec::new();
        answer.encode(&mut again);
        assert_eq!(again, input, "what is decoded is what would be encoded");
    }
}

pub(super) fn answer_seeds() -> Vec<Vec<u8>> {
    let mut values = BatchBuf::new();
    assert!(values.push(b"one") && values.push(b"two"));
    let block = Taken::Block { number: 1, token: 2, abandoned: true };
    let outcomes = [
        Outcome::Done(Taken::Value((*b"value").into())),
        Outcome::Done(block),
        Outcome::Done(Taken::Values(values)),
        Outcome::Partial { put: 1, fault: Some(Fault::Closed) },
        Outcome::Offered(7),
        Outcome::Failed(Fault::TooLong(256)),
        Outcome::Opened { hub: 1, kind: Kind::Pool, capacity: 2, value_bytes: 4096, memory: 9 },
    ];
    let encoded = outcomes.map(|outcome| {
        let mut message = Vec::new();
        Answer::Outcome(5, outcome).encode(&mut message);
        message
    });
    encoded.into()
}

/// Parses an application file and a topology file, separated by a line of dashes.
pub(super) fn files(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (application, topology) = text.split_once("\n---\n").unwrap_or((&text, ""));
    let topology = Topology::parse(topology);
    if let Ok(application) = Application::parse(application) {
        for hub in &application.hubs {
            assert_eq!(from_argument(&to_argument(hub)).as_ref(), Some(hub));
        }
        if let Ok(topology) = topology {
            let placed = Plan::new(&application, &topology, &["host".to_owned(), "arm0".to_owned()]);
            let placed = placed.map(|plan| plan.hubs.values().map(Vec::len).sum::<usize>());
            assert!(placed.is_err() || placed == Ok(application.hubs.len()));
        }
    }
}

pub(super) fn files_seeds() -> Vec<Vec<u8>> {
    let application = include_str!("../../../../examples/pipeline/app.toml");
    let topology = include_str!("../../../../examples/pipeline/two-nodes.toml");
    vec![format!("{application}\n---\n{topology}").into_bytes()]
}
