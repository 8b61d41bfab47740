//! Test program that the end-to-end tests run on nodes; the first argument selects its behaviour.

mod basics;
mod bulk;
mod channels;
mod copies;
mod exchange;
mod files;
mod given;
mod group;
mod hostile;
mod marks;
mod member;
mod names;
mod objects;
mod pages;
mod pmi;
mod regions;
mod revoking;
mod tasks;
mod typed;
mod waitset;
mod xipx;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use tombolo::Domain;

/// Timeout for events that must happen.
const PATIENCE: Duration = Duration::from_secs(100);

type Outcome = Result<(), Box<dyn Error>>;

/// Attaches this program as a domain whose operations time out after [`PATIENCE`].
fn attach() -> Result<Domain, tombolo::Error> {
    Ok(Domain::attach()?.with_timeout(PATIENCE))
}

fn main() -> ExitCode {
    if let Some(status) = tasks::run_worker() {
        return status;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        // How programs start and end.
        ["exit", status] => return ExitCode::from(status.parse().unwrap_or(99)),
        ["raise", signal] => basics::raise(signal),
        ["tell", ..] => basics::tell(),
        ["cat"] => basics::cat(),
        ["flood", stream, bytes] => basics::flood(stream, bytes),
        ["mutter", count] => basics::mutter(count),
        ["sleep", seconds] => basics::sleep(seconds),
        ["ignore-term"] => basics::ignore_term(),
        ["leave-behind", script, seconds] => basics::leave_behind(script, seconds),
        // Working channels.
        ["exchange", count] => exchange::run(count),
        ["many-channels", count] => channels::many(count),
        ["marks"] => marks::run(),
        // Names, refusals and limits.
        ["export", name] => channels::export(name),
        ["serve", name, slot_bytes, slots, hash] => channels::serve(name, slot_bytes, slots, hash),
        ["connect", name, slot_bytes, slots, hash] => channels::connect(name, slot_bytes, slots, hash),
        ["keep", name] => channels::keep(name),
        ["echo-many", name] => channels::echo_many(name),
        ["wake-many", name, count, rounds] => channels::wake_many(name, count, rounds),
        ["connect-in-turn", name, count] => channels::connect_in_turn(name, count),
        // Regions and capabilities.
        ["given", node, place] => given::give(node, place),
        ["given-take", does] => given::take(does),
        ["region-lend", name, place] => regions::lend(name, place),
        ["region-borrow", name] => regions::borrow(name),
        ["region-take-back", name, place, holders] => revoking::take_back(name, place, holders),
        ["region-hold", name, how] => revoking::hold(name, how),
        ["region-seal", file] => revoking::seal(file),
        // Copy services.
        ["copies", node, place] => copies::work(node, place),
        ["copies-hold", node, place] => copies::hold(node, place),
        // Shared objects.
        ["objects", rounds] => objects::work(rounds),
        ["objects-die"] => objects::die(),
        ["objects-shrink", deaths @ ..] => objects::shrink(deaths),
        // Tasks.
        ["tasks", on, fifo, worker @ ..] => tasks::start(on, fifo, worker),
        // Message devices.
        ["xipx", rounds] => xipx::work(rounds),
        ["xipx-die"] => xipx::die(),
        ["xipx-answer", group, channel] => xipx::answer(group, channel),
        ["xipx-ask", group, node, channel, words] => xipx::ask(group, node, channel, words),
        // Shared pages.
        ["pages-count", increments] => pages::count(increments),
        ["pages-lose"] => pages::lose(),
        ["pages-share"] => pages::share(),
        ["pages-release", rounds] => pages::release(rounds),
        ["pages-lose-home"] => pages::lose_home(),
        ["pages-refuse", bytes] => pages::refuse(bytes),
        // Bulk data.
        ["bulk-chain", trust, window, rounds] => bulk::chain(trust, window, rounds),
        ["bulk-outlive", name, trust, window, forwarded] => bulk::outlive(name, trust, window, forwarded),
        ["bulk-hold", name, trust, next] => bulk::hold(name, trust, next),
        ["bulk-cheat", name] => bulk::cheat(name),
        ["bulk-trusting", name] => bulk::trusting(name),
        ["bulk-too-large", node] => bulk::too_large(node),
        // Granted files.
        ["file-sum", path] => files::sum(path),
        ["file-show", paths @ ..] => files::show(paths),
        ["file-try", paths @ ..] => files::try_open(paths),
        ["file-copy", from, to] => files::copy(from, to),
        ["file-list", folders @ ..] => files::list(folders),
        ["file-shrinks", path] => files::read_while_it_shrinks(path),
        ["file-for-ever", path] => files::read_for_ever(path),
        ["file-many", path] => files::many(path),
        ["file-intrude", name] => files::intrude(name),
        ["file-tell-name"] => files::tell_name(),
        ["file-serve", path] => files::serve(path),
        ["file-limits", path, buffers, bytes] => files::limits(path, buffers, bytes),
        ["file-client", name] => files::client(name),
        ["file-hostile", path] => files::hostile(path),
        // Typed interfaces.
        ["typed-serve", name, clients] => typed::serve(name, clients, "0"),
        ["typed-serve", name, clients, plain] => typed::serve(name, clients, plain),
        ["typed-call", window, names @ ..] => typed::call(window, names),
        ["rights-serve", name] => typed::serve_rights(name),
        ["rights-call", name, window] => typed::call_rights(name, window),
        ["buffers-serve", name, how, clients] => typed::serve_buffers(name, how, clients),
        ["buffers-call", name, how, channels] => typed::call_buffers(name, how, channels),
        // One waitset and its clients.
        ["serve-all", name, clients] => waitset::serve(name, clients),
        ["use-many", name, channels, rounds, then] => waitset::use_many(name, channels, rounds, then),
        // Members of the chaos run.
        ["member", name, pause_us, peers @ ..] => member::run(name, pause_us, peers),
        // Malicious peers.
        ["scribble", name, seed, channels] => hostile::scribble(name, seed, channels),
        ["scribble-window", seed, rounds] => hostile::scribble_window(seed, rounds),
        ["mute", name] => hostile::mute(name),
        ["flood-channel", name, count] => hostile::flood_channel(name, count),
        ["honest", name, count] => hostile::honest(name, count, false),
        ["honest-last", name, count] => hostile::honest(name, count, true),
        ["steadfast", name] => hostile::steadfast(name),
        ["open-without-end", name, count] => hostile::open_without_end(name, count),
        // Groups.
        ["group", name, parties, count, order] => group::run(name, parties, count, order),
        // Deaths of peers.
        ["hold", name] => channels::hold(name),
        ["lose-peer", how, name] => channels::lose_peer(how, name),
        // Names, locks, barriers.
        ["hold-lock", name] => names::hold_lock(name),
        ["queue-for-lock", name] => names::queue_for_lock(name),
        ["count-under-lock", name, rounds] => names::count_under_lock(name, rounds),
        ["meet", name, parties, times] => names::meet(name, parties, times),
        ["stay-away", name, parties] => names::stay_away(name, parties),
        ["set-and-stay", record] => names::set_and_stay(record),
        ["hold-permit", name] => names::hold_permit(name),
        ["use-own-node"] => names::use_own_node(),
        // A rank of `tombolo mpirun`, without MPI.
        ["pmi", steps @ ..] => pmi::run(steps),
        // Child domains.
        ["parent", node, rest @ ..] => basics::parent(node, rest),
        ["spawn-in-turn", node, count] => basics::spawn_in_turn(node, count),
        _ => Err(format!("no such behaviour: {words:?}").into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("actor: {error}");
            ExitCode::FAILURE
        }
    }
}
