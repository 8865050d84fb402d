//! What is asked of a server that speaks RESP, or of the nodes of a Redis Cluster, in whatever way: commands and
//! their answers, and what it says of itself.
//!
//! Invariant: an answer of another kind than a command has is an error, never a panic.
//!
//! Threads: a connection is for one thread at a time.

use super::resp_address::{Address, PASSWORD};
use super::{Changes, refused};
use credenza::{Error, Result};
use redis::cluster::{ClusterClient, ClusterConnection, ClusterPipeline};
use redis::{Client, Cmd, Connection, ConnectionAddr, Pipeline, Value, cmd};
use std::collections::HashMap;
use std::time::Duration;

/// A server that does not answer for so long has failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
pub(super) const PATIENCE_TO_CONNECT: Duration = Duration::from_secs(5);

/// What a server says of itself.
pub(super) struct Facts {
    pub(super) version: String,
    pub(super) class: Changes,
    /// Why the class is what it is, in words.
    pub(super) persistence: String,
}

/// What the server, or the crate that asks it, said no to.
pub(super) fn said<T>(call: &str, answer: redis::RedisResult<T>) -> Result<T> {
    answer.map_err(|e| refused(call, in_words(&e, "the server", PATIENCE)))
}

/// What came of asking `whom`, who had so much time. The crate's own words for what is not RESP go over
/// several lines, and tell of its parser.
fn in_words(e: &redis::RedisError, whom: &str, patience: Duration) -> String {
    match e.kind() {
        redis::ErrorKind::Parse => format!("what answers at {whom} does not speak RESP"),
        redis::ErrorKind::AuthenticationFailed => {
            format!("{e}; the password is taken from the environment variable {PASSWORD}")
        }
        _ if e.is_timeout() => format!("no answer after {} s", patience.as_secs()),
        _ => e.to_string(),
    }
}

/// A connection to a server, or to every node of a cluster that has keys.
pub(super) struct Server {
    /// For commands that go to the node of their key.
    pub(super) cluster: Option<ClusterConnection>,
    /// For those that each of these must be asked.
    pub(super) nodes: Vec<Connection>,
}

fn connected(info: &redis::ConnectionInfo) -> Result<Connection> {
    let ask = || {
        let connection =
            Client::open(info.clone())?.get_connection_with_timeout(PATIENCE_TO_CONNECT)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        Ok(connection)
    };
    let address = info.addr().to_string();
    ask().map_err(|e| {
        let why = in_words(&e, &address, PATIENCE_TO_CONNECT);
        refused(&format!("connect to {address}"), why)
    })
}

impl Server {
    pub(super) fn connect(address: &Address) -> Result<Server> {
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
    pub(super) fn ask(&mut self, call: &'static str, command: &Cmd) -> Result<Value> {
        let answer = match &mut self.cluster {
            Some(cluster) => command.query(cluster),
            None => command.query(&mut self.nodes[0]),
        };
        said(call, answer)
    }

    /// What it answers to several that are sent together, in their order.
    pub(super) fn ask_all(&mut self, call: &str, commands: Vec<Cmd>) -> Result<Vec<Value>> {
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

    pub(super) fn keys(&mut self) -> Result<u64> {
        self.sum(|node| said("DBSIZE", cmd("DBSIZE").query(node)))
    }

    /// Bytes that it has allocated.
    pub(super) fn memory(&mut self) -> Result<u64> {
        self.sum(|node| {
            Ok(info(node)?.get("used_memory").and_then(|n| n.parse().ok()).unwrap_or(0))
        })
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        self.nodes.iter_mut().try_for_each(|node| said("FLUSHDB", cmd("FLUSHDB").exec(node)))
    }

    pub(super) fn delete(&mut self, keys: &[&[u8]]) -> Result<()> {
        if self.cluster.is_some() {
            let each = keys.iter().map(|key| about("DEL", key)).collect();
            return self.ask_all("DEL", each).map(drop);
        }
        self.ask("DEL", cmd("DEL").arg(keys)).map(drop)
    }

    pub(super) fn facts(&mut self) -> Result<Facts> {
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
pub(super) fn about(name: &str, key: &[u8]) -> Cmd {
    let mut command = cmd(name);
    command.arg(key);
    command
}

pub(super) fn pipeline_of(commands: Vec<Cmd>) -> Pipeline {
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
    fn a_server_that_does_not_answer_in_time_is_told_as_such() {
        let late = std::io::Error::from(std::io::ErrorKind::WouldBlock);
        let said = in_words(&late.into(), "host:7", Duration::from_secs(5));
        assert_eq!(said, "no answer after 5 s");
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
