//! A server that speaks RESP (Redis, Valkey, KeyDB and others), alone or a Redis Cluster: another
//! process, which may be on another machine and whose data are not in files of the workbench.
//!
//! Tuning: GET, SET and DEL; what is loaded is sent [`AT_ONCE`] commands at a time, of which the answers
//! are read afterwards, and so is a batch of lookups in a cluster; of one server MGET asks for a batch.
//! What is not loaded is a message there and one back for every operation.
//!
//! Invariants: nothing of others is ever deleted. A database that is not empty is refused, but where the
//! address says that it may be flushed. The file at a store's path says that the database was empty when
//! the workbench began with it (the claim): only then keys of the data are removed from it, and no others.
//!
//! Threads: a connection is for one thread at a time; each thread, and each process, has its own.

use super::resp_address::{Address, FORMS, PASSWORD};
use super::{
    Changes, Driver, Identity, Reading, Shape, Sharing, Source, Store, Threads, Writer, refused,
};
use crate::measure::Size;
use crate::workload::Records;
use credenza::{Error, Result};
use redis::cluster::{ClusterClient, ClusterConnection, ClusterPipeline};
use redis::{Client, Cmd, Connection, ConnectionAddr, Pipeline, Value, cmd};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

/// Commands that are sent before their answers are read, where many are given at once.
const AT_ONCE: usize = 100;
/// Keys that a step of a scan asks for, about, and that one command deletes.
const AT_A_STEP: usize = 1000;
/// A server that does not answer for so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE_TO_CONNECT: Duration = Duration::from_secs(5);

pub(super) struct Resp {
    address: Address,
    facts: Facts,
}

/// What a server says of itself.
struct Facts {
    version: String,
    class: Changes,
    /// Why the class is what it is, in words.
    persistence: String,
}

impl Driver for Resp {
    const NAME: &'static str = "resp";
    const SOURCE: Option<Source> = None;
    const NATIVE_GET_MANY: bool = true;
    const SYNCS: &'static str = "by the server, where nobody counts";
    const COMMITS: bool = true;
    const IS_SERVER: bool = true;
    const SHARING: Sharing = Sharing::Writer;
    const THREADS: Threads = Threads::Handles;
    const HAS_WRITER_THREAD: bool = true;
    const REOPENS: bool = true;

    fn load(address: Option<&Path>) -> Result<Resp> {
        let text = address.and_then(Path::to_str);
        let text = text.ok_or_else(|| Error::invalid(format!("name a server: {FORMS}")))?;
        let password = std::env::var(PASSWORD).ok();
        let address = Address::parse(text, password.as_deref())?;
        let mut server = Server::connect(&address)?;
        let facts = server.facts()?;
        Ok(Resp { address, facts })
    }

    fn identity(&self) -> Identity {
        Identity { version: self.facts.version.clone(), file: None }
    }

    fn tuning(&self, _: &Shape) -> String {
        let batch = if self.address.is_cluster { "GETs sent together" } else { "MGET" };
        format!(
            "GET, SET, DEL, one message each; batches: {batch}; loads (build, insert, insert-random): \
             {AT_ONCE} SETs sent together; scan: SCAN and {batch}, each key once"
        )
    }

    fn notes(&self) -> Vec<String> {
        let (way, Facts { version, persistence, .. }) = (self.address.way(), &self.facts);
        vec![
            format!(
                "a server ({version}), reached over {way}: another process, whose memory, processor and \
                 calls are not in the figures; its 'file' is what its memory (used_memory) grew by"
            ),
            persistence.clone(),
        ]
    }

    fn changes(&self) -> Changes {
        self.facts.class
    }

    fn admit(&self) -> Result<()> {
        match Server::connect(&self.address)?.keys()? {
            keys if keys > 0 && !self.address.may_flush => Err(not_empty(keys)),
            _ => Ok(()),
        }
    }

    fn clear<'k>(&self, path: &Path, keys: impl Iterator<Item = &'k [u8]>) -> Result<()> {
        if !path.exists() {
            return Ok(());
        }
        let mut server = Server::connect(&self.address)?;
        if self.address.may_flush {
            return server.flush();
        }
        let keys: Vec<&[u8]> = keys.collect();
        keys.chunks(AT_A_STEP).try_for_each(|keys| server.delete(keys))
    }

    fn size(&self, path: &Path) -> Result<Size> {
        let claim = std::fs::read_to_string(path).map_err(|e| Error::io("read", e).at(path))?;
        let before: u64 = claim.parse().unwrap_or(0);
        let grown = Server::connect(&self.address)?.memory()?.saturating_sub(before);
        Ok(Size { allocated: grown, length: grown })
    }

    fn build(&self, records: &Records, shape: &Shape, path: &Path) -> Result<()> {
        let mut client = self.create(path, shape)?;
        for (key, value) in records.iter() {
            client.insert(key, value)?;
        }
        client.close()
    }

    type Store<'d> = RespClient;

    fn open(&self, path: &Path, _: &Shape, _: Reading) -> Result<RespClient> {
        if !path.exists() {
            return Err(Error::invalid("nothing was stored in this server").at(path));
        }
        RespClient::connect(&self.address)
    }

    type Writer<'d> = RespClient;

    fn create(&self, path: &Path, _: &Shape) -> Result<RespClient> {
        let mut client = RespClient::connect(&self.address)?;
        if self.address.may_flush {
            client.server.flush()?;
        }
        match client.server.keys()? {
            0 => {}
            keys => return Err(not_empty(keys)),
        }
        let claim = client.server.memory()?.to_string();
        std::fs::write(path, claim).map_err(|e| Error::io("write", e).at(path))?;
        client.is_loading = true;
        Ok(client)
    }

    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<RespClient> {
        let mut client = self.create(path, shape)?;
        client.settle()?;
        Ok(client)
    }

    fn reopen(&self, path: &Path, shape: &Shape, _: bool) -> Result<RespClient> {
        self.open(path, shape, Reading::Warm)
    }

    fn open_to_change(&self, path: &Path, shape: &Shape) -> Result<RespClient> {
        self.open(path, shape, Reading::Warm)
    }
}

fn not_empty(keys: u64) -> Error {
    let keys = if keys == 1 { "1 key".to_owned() } else { format!("{keys} keys") };
    Error::invalid(format!(
        "the database is not empty ({keys}), and what is in it is not touched: name another one, or say \
         ?flush=yes behind the address to have all of it deleted"
    ))
}

/// What the server, or the crate that asks it, said no to.
fn said<T>(call: &str, answer: redis::RedisResult<T>) -> Result<T> {
    answer.map_err(|e| {
        let hint = match e.kind() {
            redis::ErrorKind::AuthenticationFailed => {
                format!("; the password is taken from the environment variable {PASSWORD}")
            }
            _ => String::new(),
        };
        refused(call, format!("{e}{hint}"))
    })
}

/// An answer of another kind than the command has.
#[cold]
fn no_answer(call: &str, answer: &Value) -> Error {
    let kind = match answer {
        Value::Nil => "nothing",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) | Value::VerbatimString { .. } => "a string",
        Value::Array(_) | Value::Set(_) => "a list",
        Value::Okay => "OK",
        _ => "something else",
    };
    refused(call, format!("the server answers {kind}, which is no answer to this"))
}

/// A connection to a server, or to every node of a cluster that has keys.
struct Server {
    /// For commands that go to the node of their key.
    cluster: Option<ClusterConnection>,
    /// For those that each of these must be asked.
    nodes: Vec<Connection>,
}

fn connected(info: &redis::ConnectionInfo) -> Result<Connection> {
    let ask = || {
        let connection =
            Client::open(info.clone())?.get_connection_with_timeout(PATIENCE_TO_CONNECT)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        Ok(connection)
    };
    said(&format!("connect to {}", info.addr()), ask())
}

impl Server {
    fn connect(address: &Address) -> Result<Server> {
        let mut nodes = Vec::new();
        let mut failed = None;
        for info in &address.nodes {
            match connected(info) {
                Ok(connection) => nodes.push((info, connection)),
                Err(e) => failed = Some(e),
            }
        }
        // Any node of a cluster knows the others.
        let first = nodes.pop();
        let Some((info, mut connection)) = first else {
            return Err(failed.unwrap_or_else(|| Error::invalid("the address has no server in it")));
        };
        if !address.is_cluster {
            return Ok(Server { cluster: None, nodes: vec![connection] });
        }
        let known = said("CLUSTER NODES", cmd("CLUSTER").arg("NODES").query(&mut connection))?;
        let node = |addr| connected(&info.clone().set_addr(addr));
        let nodes = masters(known, info.addr()).map(node).collect::<Result<Vec<_>>>()?;
        let mut builder = ClusterClient::builder(address.nodes.clone())
            .connection_timeout(PATIENCE_TO_CONNECT)
            .response_timeout(PATIENCE)
            .tcp_settings(info.tcp_settings().clone());
        if let Some(name) = info.redis_settings().username() {
            builder = builder.username(name);
        }
        if let Some(password) = info.redis_settings().password() {
            builder = builder.password(password);
        }
        let cluster = builder.build().and_then(|client| client.get_connection());
        Ok(Server { cluster: Some(said("connect to the cluster", cluster)?), nodes })
    }

    /// What the server answers to one command.
    #[inline]
    fn ask(&mut self, call: &'static str, command: &Cmd) -> Result<Value> {
        let answer = match &mut self.cluster {
            Some(cluster) => command.query(cluster),
            None => command.query(&mut self.nodes[0]),
        };
        said(call, answer)
    }

    /// What it answers to several that are sent together, in their order.
    fn ask_all(&mut self, call: &str, commands: Vec<Cmd>) -> Result<Vec<Value>> {
        let count = commands.len();
        let answers: Vec<Value> = match &mut self.cluster {
            Some(cluster) => {
                let mut pipeline = ClusterPipeline::with_capacity(count);
                commands.into_iter().for_each(|command| {
                    pipeline.add_command(command);
                });
                said(call, pipeline.query(cluster))?
            }
            None => said(call, pipeline_of(commands).query(&mut self.nodes[0]))?,
        };
        if answers.len() == count {
            return Ok(answers);
        }
        Err(refused(call, format!("{} answers to {count} commands", answers.len())))
    }

    /// The sum of what every node answers.
    fn sum(&mut self, each: impl FnMut(&mut Connection) -> Result<u64>) -> Result<u64> {
        self.nodes.iter_mut().map(each).sum()
    }

    fn keys(&mut self) -> Result<u64> {
        self.sum(|node| said("DBSIZE", cmd("DBSIZE").query(node)))
    }

    /// Bytes that it has allocated.
    fn memory(&mut self) -> Result<u64> {
        self.sum(|node| {
            Ok(info(node)?.get("used_memory").and_then(|n| n.parse().ok()).unwrap_or(0))
        })
    }

    fn flush(&mut self) -> Result<()> {
        self.nodes.iter_mut().try_for_each(|node| said("FLUSHDB", cmd("FLUSHDB").exec(node)))
    }

    fn delete(&mut self, keys: &[&[u8]]) -> Result<()> {
        if self.cluster.is_some() {
            let each = keys.iter().map(|key| about("DEL", key)).collect();
            return self.ask_all("DEL", each).map(drop);
        }
        self.ask("DEL", cmd("DEL").arg(keys)).map(drop)
    }

    fn facts(&mut self) -> Result<Facts> {
        let mut facts: Option<Facts> = None;
        for node in &mut self.nodes {
            let of_node = Facts::of(node)?;
            // Of a cluster the node that promises least counts.
            let is_weaker = |known: &Facts| of_node.class.strength() < known.class.strength();
            if facts.as_ref().is_none_or(is_weaker) {
                facts = Some(of_node);
            }
        }
        let mut facts =
            facts.ok_or_else(|| Error::invalid("no node of the cluster has keys to store"))?;
        if self.cluster.is_some() {
            facts.version += &format!(", a cluster of {} nodes", self.nodes.len());
        }
        Ok(facts)
    }
}

/// A command with one key.
fn about(name: &str, key: &[u8]) -> Cmd {
    let mut command = cmd(name);
    command.arg(key);
    command
}

fn pipeline_of(commands: Vec<Cmd>) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(commands.len());
    commands.into_iter().for_each(|command| {
        pipeline.add_command(command);
    });
    pipeline
}

/// The addresses of the nodes that have keys, from what `CLUSTER NODES` says; a node that does not know
/// its own was asked at `asked`.
fn masters(known: String, asked: &ConnectionAddr) -> impl Iterator<Item = ConnectionAddr> {
    let host_asked = match asked {
        ConnectionAddr::Tcp(host, _) => host.clone(),
        _ => String::new(),
    };
    let lines: Vec<String> = known.lines().map(str::to_owned).collect();
    lines.into_iter().filter_map(move |line| {
        let mut fields = line.split(' ').skip(1);
        let (place, flags) = (fields.next()?, fields.next()?);
        let is_master = flags.split(',').any(|flag| flag == "master");
        // Five fields lie between the flags and the first slot.
        fields.nth(5).filter(|_| is_master)?;
        let (host, port) = place.split(['@', ',']).next()?.rsplit_once(':')?;
        let host = if host.is_empty() { &host_asked } else { host };
        Some(ConnectionAddr::Tcp(host.to_owned(), port.parse().ok()?))
    })
}

/// What `INFO` says, by name.
fn info(node: &mut Connection) -> Result<HashMap<String, String>> {
    let text: String = said("INFO", cmd("INFO").query(node))?;
    let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

impl Facts {
    fn of(node: &mut Connection) -> Result<Facts> {
        let info = info(node)?;
        let version = |kind: &str| {
            let version = info.get(&format!("{}_version", kind.to_lowercase()))?;
            Some(format!("{kind} {version}"))
        };
        // Valkey says which version of Redis it is like, too.
        let version = ["Valkey", "Dragonfly", "Redis"].into_iter().find_map(version);
        let (class, persistence) = durability(|name| setting(node, name));
        Ok(Facts { version: version.unwrap_or_default(), class, persistence })
    }
}

/// One of the server's settings; `None` if it does not tell.
fn setting(node: &mut Connection, name: &str) -> Option<String> {
    let answer: Vec<String> = cmd("CONFIG").arg("GET").arg(name).query(node).ok()?;
    answer.into_iter().nth(1)
}

/// The class of a server with these settings, and why, in words.
fn durability(mut setting: impl FnMut(&str) -> Option<String>) -> (Changes, String) {
    let mut ask = |name| setting(name).unwrap_or_default();
    match (&*ask("appendonly"), &*ask("appendfsync")) {
        ("yes", "always") => {
            (Changes::Sync, "every change is on the disk (appendfsync always)".to_owned())
        }
        ("yes", when) => {
            let class = "a change is in the server's log and outlives the server, not the power";
            (Changes::Buffered, format!("{class} (appendfsync {when})"))
        }
        ("no", _) => {
            let snapshots = match &*ask("save") {
                "" => "no snapshots".to_owned(),
                when => format!("snapshots now and then: save {when}"),
            };
            let class = "changes are in the server's memory and go with it";
            (Changes::Memory, format!("{class} (no log, {snapshots})"))
        }
        _ => (
            Changes::Memory,
            "the server does not tell its settings (CONFIG GET): taken for one that has all in memory"
                .to_owned(),
        ),
    }
}

/// One connection, for lookups and changes.
pub(super) struct RespClient {
    server: Server,
    /// Changes that are not sent yet.
    pending: Vec<Cmd>,
    /// Whether changes are gathered, and sent together.
    is_loading: bool,
}

impl RespClient {
    fn connect(address: &Address) -> Result<RespClient> {
        Ok(RespClient { server: Server::connect(address)?, pending: Vec::new(), is_loading: false })
    }

    /// Sends what was gathered.
    fn send(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let answers = self.server.ask_all("SET", std::mem::take(&mut self.pending))?;
        let wrong = answers.iter().find(|answer| **answer != Value::Okay);
        wrong.map_or(Ok(()), |answer| Err(no_answer("SET", answer)))
    }
}

/// Gives the value of an answer to `take`, or says that there is none.
#[inline]
fn value_of(call: &str, answer: &Value, take: impl FnOnce(&[u8])) -> Result<bool> {
    match answer {
        Value::BulkString(value) => {
            take(value);
            Ok(true)
        }
        Value::Nil => Ok(false),
        other => Err(no_answer(call, other)),
    }
}

/// The values of these keys, of one node: in a cluster one command takes no keys of several slots.
fn values(node: &mut Connection, keys: &[Vec<u8>], is_cluster: bool) -> Result<Vec<Value>> {
    let answers: Vec<Value> = if is_cluster {
        let each = keys.iter().map(|key| about("GET", key)).collect();
        said("GET", pipeline_of(each).query(node))?
    } else {
        said("MGET", cmd("MGET").arg(keys).query(node))?
    };
    if answers.len() == keys.len() {
        return Ok(answers);
    }
    Err(refused("MGET", format!("{} values for {} keys", answers.len(), keys.len())))
}

impl Store for RespClient {
    #[inline]
    fn get(&mut self, key: &[u8], take: impl FnMut(&[u8])) -> Result<bool> {
        self.send()?;
        let answer = self.server.ask("GET", cmd("GET").arg(key))?;
        value_of("GET", &answer, take)
    }

    fn get_many(
        &mut self,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.send()?;
        let answers = if self.server.cluster.is_some() {
            let each = keys.iter().map(|key| about("GET", key)).collect();
            self.server.ask_all("GET", each)?
        } else {
            match self.server.ask("MGET", cmd("MGET").arg(keys))? {
                Value::Array(answers) if answers.len() == keys.len() => answers,
                other => return Err(no_answer("MGET", &other)),
            }
        };
        for (i, answer) in answers.iter().enumerate() {
            if !value_of("MGET", answer, |value| take(i, Some(value)))? {
                take(i, None);
            }
        }
        Ok(())
    }

    /// A server has no files here.
    fn preload(&mut self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.send()?;
        let is_cluster = self.server.cluster.is_some();
        for node in &mut self.server.nodes {
            // A server may give a key again while its table changes its size.
            let (mut given, mut cursor) = (HashSet::new(), b"0".to_vec());
            loop {
                let mut step = cmd("SCAN");
                step.arg(&cursor).arg("COUNT").arg(AT_A_STEP);
                let (next, mut keys): (Vec<u8>, Vec<Vec<u8>>) = said("SCAN", step.query(node))?;
                keys.retain(|key| given.insert(key.clone()));
                if !keys.is_empty() {
                    let values = values(node, &keys, is_cluster)?;
                    for (key, answer) in keys.iter().zip(&values) {
                        value_of("MGET", answer, |value| take(key, value))?;
                    }
                }
                cursor = next;
                if cursor == b"0" {
                    break;
                }
            }
        }
        Ok(())
    }
}

impl Writer for RespClient {
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut command = cmd("SET");
        command.arg(key).arg(value);
        if self.is_loading {
            self.pending.push(command);
            return if self.pending.len() < AT_ONCE { Ok(()) } else { self.send() };
        }
        match self.server.ask("SET", &command)? {
            Value::Okay => Ok(()),
            other => Err(no_answer("SET", &other)),
        }
    }

    fn settle(&mut self) -> Result<()> {
        self.is_loading = false;
        self.send()
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.send()?;
        match self.server.ask("DEL", cmd("DEL").arg(key))? {
            Value::Int(removed) => Ok(removed > 0),
            other => Err(no_answer("DEL", &other)),
        }
    }

    fn close(mut self) -> Result<()> {
        self.send()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class_of(settings: &[(&str, &str)]) -> (Changes, String) {
        let found = |name: &str| settings.iter().find(|(known, _)| *known == name);
        durability(|name| found(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_class_is_what_the_settings_promise() {
        let log = |when| class_of(&[("appendonly", "yes"), ("appendfsync", when)]);
        assert_eq!(log("always").0, Changes::Sync);
        assert_eq!((log("everysec").0, log("no").0), (Changes::Buffered, Changes::Buffered));
        let (class, why) = class_of(&[("appendonly", "no"), ("save", "60 1")]);
        assert!(class == Changes::Memory && why.contains("now and then: save 60 1"), "{why}");
        let (class, why) = class_of(&[]);
        assert!(class == Changes::Memory && why.contains("does not tell its settings"), "{why}");
    }

    #[test]
    fn the_nodes_that_have_keys_are_asked() {
        let known = "a 10.0.0.1:7001@17001,name master - 0 1 2 connected 0-5460\n\
                     b :7002@17002 myself,master - 0 1 2 connected 5461-10922 [93->-c]\n\
                     c 10.0.0.3:7003@17003 slave a 0 1 2 connected\n\
                     d fd00::1:7004@17004 master - 0 1 2 connected 10923\n\
                     e 10.0.0.5:7005@17005 master - 0 1 2 connected\n\
                     nonsense\n";
        let asked = ConnectionAddr::Tcp("host".to_owned(), 9);
        let found: Vec<ConnectionAddr> = masters(known.to_owned(), &asked).collect();
        let expected = [("10.0.0.1", 7001), ("host", 7002), ("fd00::1", 7004)];
        assert_eq!(found, expected.map(|(host, port)| ConnectionAddr::Tcp(host.to_owned(), port)));
    }
}
