//! Applications, and the placement of their parts on nodes.
//!
//! As in OpenComRTOS, an *application file* declares hubs and tasks by name, and a *topology file* places
//! them on nodes. Programs only know names, so moving a hub or a task changes neither source nor build.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_hub::{BadDescription, Description, Kind, type_number};
use toml::{Table, Value};

/// Task: a program of an application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskDeclaration {
    /// Name of the task.
    pub name: String,
    /// Image of the program, as written in the file.
    pub image: String,
    /// Arguments of the program.
    pub arguments: Vec<String>,
    /// Priority of its requests to hubs, 0 to 255; larger is more urgent.
    pub priority: Option<u8>,
}

/// Contents of an application file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Application {
    /// Declared hubs.
    pub hubs: Vec<Description>,
    /// Declared tasks.
    pub tasks: Vec<TaskDeclaration>,
}

/// Contents of a topology file: a node for each hub and task.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    /// Node of hubs and tasks that are not named.
    pub default: Option<String>,
    /// Nodes of hubs, by name.
    pub hubs: BTreeMap<String, String>,
    /// Nodes of tasks, by name.
    pub tasks: BTreeMap<String, String>,
}

/// Application with a node for each of its parts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Hubs of each node.
    pub hubs: BTreeMap<String, Vec<Description>>,
    /// Tasks with their nodes, in the order of the file.
    pub tasks: Vec<(TaskDeclaration, String)>,
}

/// Error in an application or a topology.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum PlanError {
    #[error("{0}")]
    Syntax(String),
    #[error("{item} has no '{key}'; it may have {known}")]
    UnknownKey { item: String, key: String, known: &'static str },
    #[error("'{key}' of {item} is not {wanted}")]
    WrongType { item: String, key: String, wanted: &'static str },
    #[error("{item} has no '{key}', which it needs")]
    Missing { item: String, key: &'static str },
    #[error(
        "hub '{hub}' is a '{kind}', and there is no such kind; use port, fifo, event, semaphore, resource or pool"
    )]
    UnknownKind { hub: String, kind: String },
    #[error(transparent)]
    Description(#[from] BadDescription),
    #[error("the topology places {what} '{name}', which the application does not declare; it has {known}")]
    Undeclared { what: &'static str, name: String, known: String },
    #[error("the topology does not place {what} '{name}'; name its node, or set `default`")]
    Unplaced { what: &'static str, name: String },
    #[error("{what} '{name}' is placed on node '{node}', which the machine does not have; it has {known}")]
    UnknownNode { what: &'static str, name: String, node: String, known: String },
}

/// Formats names for a message: at most ten of them.
fn join_names<'n>(names: impl Iterator<Item = &'n String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    match names.len() {
        0 => "none".to_owned(),
        1..=10 => names.join(", "),
        count => format!("{} and {} more", names[..10].join(", "), count - 10),
    }
}

fn parse(text: &str) -> Result<Table, PlanError> {
    text.parse::<Table>().map_err(|error| PlanError::Syntax(error.to_string().trim_end().to_owned()))
}

/// Refuses keys other than `keys`; `known` lists them for the error message.
fn check_keys(table: &Table, item: &str, keys: &[&str], known: &'static str) -> Result<(), PlanError> {
    match table.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(PlanError::UnknownKey { item: item.to_owned(), key: key.clone(), known }),
        None => Ok(()),
    }
}

fn wrong_type(item: &str, key: &str, wanted: &'static str) -> PlanError {
    PlanError::WrongType { item: item.to_owned(), key: key.to_owned(), wanted }
}

fn text(table: &Table, item: &str, key: &'static str) -> Result<Option<String>, PlanError> {
    match table.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(wrong_type(item, key, "text")),
    }
}

fn number<T: TryFrom<i64>>(
    table: &Table,
    item: &str,
    key: &'static str,
    wanted: &'static str,
) -> Result<Option<T>, PlanError> {
    match table.get(key) {
        None => Ok(None),
        Some(Value::Integer(number)) => {
            T::try_from(*number).map(Some).map_err(|_| wrong_type(item, key, wanted))
        }
        Some(_) => Err(wrong_type(item, key, wanted)),
    }
}

fn table<'t>(tables: &'t Table, item: &str, key: &str) -> Result<Option<&'t Table>, PlanError> {
    match tables.get(key) {
        None => Ok(None),
        Some(Value::Table(table)) => Ok(Some(table)),
        Some(_) => Err(wrong_type(item, key, "a table")),
    }
}

impl Application {
    /// Parses an application file.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn parse(text: &str) -> Result<Application, PlanError> {
        let (item, file) = ("the application file", parse(text)?);
        check_keys(&file, item, &["hubs", "tasks"], "the tables [hubs] and [tasks]")?;
        let mut application = Application::default();
        for (name, _) in table(&file, item, "hubs")?.into_iter().flatten() {
            let hubs = table(&file, item, "hubs")?.unwrap_or(&file);
            let declared = table(hubs, "[hubs]", name)?.unwrap_or(&file);
            application.hubs.push(hub(name, declared)?);
        }
        for (name, _) in table(&file, item, "tasks")?.into_iter().flatten() {
            let tasks = table(&file, item, "tasks")?.unwrap_or(&file);
            let declared = table(tasks, "[tasks]", name)?.unwrap_or(&file);
            application.tasks.push(task(name, declared)?);
        }
        Ok(application)
    }
}

const HUB_KEYS: &str = "kind, capacity, initial, value, value_bytes, block_bytes and inheritance";

fn hub(name: &str, declared: &Table) -> Result<Description, PlanError> {
    let item = format!("hub '{name}'");
    let keys = ["kind", "capacity", "initial", "value", "value_bytes", "block_bytes", "inheritance"];
    check_keys(declared, &item, &keys, HUB_KEYS)?;
    let missing = || PlanError::Missing { item: item.clone(), key: "kind" };
    let kind = text(declared, &item, "kind")?.ok_or_else(missing)?;
    let kind = Kind::from_name(&kind).ok_or_else(|| PlanError::UnknownKind { hub: name.to_owned(), kind })?;
    let mut description = Description::new(name, kind);
    // Numbers that are too large for any hub are refused with the limits of the kind.
    let count = "a number from 0 to 4,294,967,295";
    if let Some(capacity) = number(declared, &item, "capacity", count)? {
        description.capacity = capacity;
    }
    if let Some(initial) = number(declared, &item, "initial", count)? {
        description.initial = initial;
    }
    for (key, has) in [("value_bytes", kind.has_values()), ("block_bytes", kind == Kind::Pool)] {
        match number(declared, &item, key, count)? {
            Some(bytes) if has => description.value_bytes = bytes,
            Some(_) => return Err(wrong_type(&item, key, "for hubs of its kind")),
            None => {}
        }
    }
    if let Some(value) = text(declared, &item, "value")? {
        if !kind.has_values() {
            return Err(wrong_type(&item, "value", "for hubs of its kind"));
        }
        description.value_type = type_number(&value);
    }
    match declared.get("inheritance") {
        None => {}
        Some(Value::Boolean(inheritance)) if kind == Kind::Resource => description.inheritance = *inheritance,
        Some(Value::Boolean(_)) => return Err(wrong_type(&item, "inheritance", "for hubs of its kind")),
        Some(_) => return Err(wrong_type(&item, "inheritance", "true or false")),
    }
    description.check()?;
    Ok(description)
}

fn task(name: &str, declared: &Table) -> Result<TaskDeclaration, PlanError> {
    let item = format!("task '{name}'");
    check_keys(declared, &item, &["image", "arguments", "priority"], "image, arguments and priority")?;
    let missing = || PlanError::Missing { item: item.clone(), key: "image" };
    let image = text(declared, &item, "image")?.ok_or_else(missing)?;
    let arguments = match declared.get("arguments") {
        None => Vec::new(),
        Some(Value::Array(words)) => {
            let words = words.iter().map(|word| word.as_str().map(str::to_owned));
            words.collect::<Option<_>>().ok_or_else(|| wrong_type(&item, "arguments", "a list of texts"))?
        }
        Some(_) => return Err(wrong_type(&item, "arguments", "a list of texts")),
    };
    let priority = number(declared, &item, "priority", "a number from 0 to 255")?;
    Ok(TaskDeclaration { name: name.to_owned(), image, arguments, priority })
}

impl Topology {
    /// Parses a topology file.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn parse(text: &str) -> Result<Topology, PlanError> {
        let (item, file) = ("the topology file", parse(text)?);
        check_keys(
            &file,
            item,
            &["default", "hubs", "tasks"],
            "`default` and the tables [hubs] and [tasks]",
        )?;
        let nodes = |key: &str| {
            let mut nodes = BTreeMap::new();
            for (name, node) in table(&file, item, key)?.into_iter().flatten() {
                let node = node
                    .as_str()
                    .ok_or_else(|| wrong_type(&format!("[{key}]"), name, "the name of a node"))?;
                nodes.insert(name.clone(), node.to_owned());
            }
            Ok::<_, PlanError>(nodes)
        };
        Ok(Topology {
            default: self::text(&file, item, "default")?,
            hubs: nodes("hubs")?,
            tasks: nodes("tasks")?,
        })
    }

    /// Creates a topology with everything on one node.
    #[must_use]
    pub fn all_on(node: &str) -> Topology {
        Topology { default: Some(node.to_owned()), ..Topology::default() }
    }
}

impl Plan {
    /// Places an application on the nodes of a machine.
    ///
    /// # Errors
    /// [`PlanError`] if a part is not placed or not declared, or is placed on a node that does not exist.
    pub fn new(application: &Application, topology: &Topology, nodes: &[String]) -> Result<Plan, PlanError> {
        let hubs: BTreeSet<String> = application.hubs.iter().map(|hub| hub.name.clone()).collect();
        let tasks: BTreeSet<String> = application.tasks.iter().map(|task| task.name.clone()).collect();
        let placed = [("hub", &topology.hubs, &hubs), ("task", &topology.tasks, &tasks)];
        for (what, placed, declared) in placed {
            if let Some(name) = placed.keys().find(|name| !declared.contains(*name)) {
                let known = join_names(declared.iter());
                return Err(PlanError::Undeclared { what, name: name.clone(), known });
            }
        }
        let node_of = |what: &'static str, name: &str, placed: &BTreeMap<String, String>| {
            let unplaced = || PlanError::Unplaced { what, name: name.to_owned() };
            let node = placed.get(name).or(topology.default.as_ref()).ok_or_else(unplaced)?;
            if nodes.contains(node) {
                return Ok(node.clone());
            }
            let (name, node, known) = (name.to_owned(), node.clone(), join_names(nodes.iter()));
            Err(PlanError::UnknownNode { what, name, node, known })
        };
        let mut plan = Plan::default();
        for hub in &application.hubs {
            let node = node_of("hub", &hub.name, &topology.hubs)?;
            plan.hubs.entry(node).or_default().push(hub.clone());
        }
        for task in &application.tasks {
            let node = node_of("task", &task.name, &topology.tasks)?;
            plan.tasks.push((task.clone(), node));
        }
        Ok(plan)
    }
}

/// Formats a hub as an argument of the program that serves it.
#[must_use]
pub fn to_argument(hub: &Description) -> String {
    let Description { name, kind, capacity, initial, value_bytes, value_type, inheritance } = hub;
    format!("{name}:{kind}:{capacity}:{initial}:{value_bytes}:{value_type:x}:{}", u8::from(*inheritance))
}

/// Parses the output of [`to_argument`]; `None` for other text.
#[must_use]
pub fn from_argument(word: &str) -> Option<Description> {
    let mut parts = word.split(':');
    let (name, kind) = (parts.next()?, Kind::from_name(parts.next()?)?);
    let mut number = || parts.next()?.parse::<u32>().ok();
    let (capacity, initial, value_bytes) = (number()?, number()?, number()?);
    let value_type = u64::from_str_radix(parts.next()?, 16).ok()?;
    let inheritance = parts.next()? == "1";
    let none = parts.next().is_none();
    let name = name.to_owned();
    none.then_some(Description { name, kind, capacity, initial, value_bytes, value_type, inheritance })
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPLICATION: &str = r#"
        [hubs]
        jobs = { kind = "fifo", capacity = 64, value = "u64" }
        done = { kind = "semaphore", capacity = 100, initial = 1 }
        guard = { kind = "resource", inheritance = false }
        frames = { kind = "pool", capacity = 8, block_bytes = 4096 }
        [tasks]
        producer = { image = "work.tbi", arguments = ["produce", "10"], priority = 9 }
        worker = { image = "work.tbi" }
    "#;

    fn nodes() -> Vec<String> {
        ["host", "arm0"].map(str::to_owned).to_vec()
    }

    fn plan(topology: &str) -> Result<Plan, PlanError> {
        Plan::new(&Application::parse(APPLICATION)?, &Topology::parse(topology)?, &nodes())
    }

    #[test]
    fn topology_places_an_application() {
        let placed = plan("default = 'host'\n[hubs]\njobs = 'arm0'\n[tasks]\nworker = 'arm0'").unwrap();
        let names = |node: &str| placed.hubs[node].iter().map(|hub| hub.name.as_str()).collect::<Vec<_>>();
        assert_eq!(names("arm0"), ["jobs"]);
        assert_eq!(names("host"), ["done", "frames", "guard"]);
        let tasks: Vec<_> = placed.tasks.iter().map(|(task, node)| (&*task.name, &**node)).collect();
        assert_eq!(tasks, [("producer", "host"), ("worker", "arm0")]);
        assert_eq!(placed.tasks[0].0.priority, Some(9));
        assert_eq!(placed.tasks[0].0.arguments, ["produce", "10"]);
        let jobs = &placed.hubs["arm0"][0];
        assert_eq!((jobs.kind, jobs.capacity, jobs.value_type), (Kind::Fifo, 64, type_number("u64")));
        assert!(!placed.hubs["host"][2].inheritance);
        assert_eq!(placed.hubs["host"][1].value_bytes, 4096);
    }

    #[test]
    fn placement_errors_name_the_part() {
        let message = |topology| plan(topology).unwrap_err().to_string();
        assert!(message("").contains("does not place hub 'done'"));
        assert!(
            message("default = 'arm9'")
                .contains("node 'arm9', which the machine does not have; it has host, arm0")
        );
        assert!(message("default = 'host'\n[tasks]\nworkers = 'host'").contains("task 'workers'"));
        assert!(message("default = 'host'\n[hubs]\njob = 'host'").contains("hub 'job'"));
        assert!(message("default = 1").contains("'default' of the topology file is not text"));
        assert!(message("[hubs]\njobs = 1").contains("is not the name of a node"));
        assert!(message("[hub]\njobs = 'host'").contains("has no 'hub'"));
    }

    #[test]
    fn declaration_errors_name_the_key() {
        let message = |hub: &str| Application::parse(&format!("[hubs]\n{hub}")).unwrap_err().to_string();
        assert!(message("x = { kind = 'fifo', capacity = 0 }").contains("invalid capacity 0 of fifo 'x'"));
        assert!(message("x = { kind = 'fifo', capacity = 65537 }").contains("from 1 to 65536"));
        assert!(message("x = { kind = 'queue' }").contains("'queue', and there is no such kind"));
        assert!(message("x = { capacity = 1 }").contains("hub 'x' has no 'kind'"));
        assert!(message("x = { kind = 'fifo', size = 1 }").contains("hub 'x' has no 'size'"));
        assert!(message("x = { kind = 'fifo', capacity = 'one' }").contains("'capacity' of hub 'x'"));
        assert!(message("x = { kind = 'fifo', capacity = -1 }").contains("'capacity' of hub 'x'"));
        assert!(message("x = { kind = 'event', value = 'u8' }").contains("'value' of hub 'x'"));
        assert!(message("'a b' = { kind = 'event' }").contains("invalid name 'a b'"));
        assert!(message("x = { kind = 'event' }\nx = { kind = 'port' }").contains("duplicate key"));
        assert!(message("x = 1").contains("'x' of [hubs] is not a table"));
        assert!(message("x = { kind = 'port', inheritance = true }").contains("'inheritance' of hub 'x'"));
        let task = Application::parse("[tasks]\nt = { arguments = [] }").unwrap_err().to_string();
        assert!(task.contains("task 't' has no 'image'"));
        let task =
            Application::parse("[tasks]\nt = { image = 'i', priority = 256 }").unwrap_err().to_string();
        assert!(task.contains("'priority' of task 't' is not a number from 0 to 255"));
    }

    #[test]
    fn hubs_round_trip_as_arguments() {
        for hub in Application::parse(APPLICATION).unwrap().hubs {
            assert_eq!(from_argument(&to_argument(&hub)), Some(hub));
        }
        for wrong in
            ["", "x", "x:fifo:1:0:0:0", "x:fifo:1:0:0:0:1:2", "x:queue:1:0:0:0:1", "x:fifo:-1:0:0:0:1"]
        {
            assert_eq!(from_argument(wrong), None, "{wrong}");
        }
    }
}
