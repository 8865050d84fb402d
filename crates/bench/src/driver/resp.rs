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
use super::resp_server::{Facts, Server, about, pipeline_of, said};
use super::resp_wire::{Answer, Wire};
use super::{
    Changes, Driver, Identity, Reading, Shape, Sharing, Source, Store, Threads, Writer, refused,
};
use crate::measure::Size;
use crate::workload::Records;
use credenza::{Error, Result};
use redis::{Cmd, Connection, Value, cmd};
use std::collections::HashSet;
use std::path::Path;

/// Commands that are sent before their answers are read, where many are given at once.
const AT_ONCE: usize = 100;
/// Keys that a step of a scan asks for, about, and that one command deletes.
const AT_A_STEP: usize = 1000;

pub(super) struct Resp {
    address: Address,
    facts: Facts,
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

    /// Nobody but the server's own settings says when a change is safe.
    fn changes_one_by_one(&self, _: bool) -> Changes {
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

/// A client of its own, for lookups and changes.
pub(super) struct RespClient {
    server: Server,
    /// What is timed goes here where there is one server, and to `server` where it is a cluster.
    wire: Option<Wire>,
    /// Changes that were not answered yet,
    unanswered: usize,
    /// and those of a cluster, which were not sent either.
    pending: Vec<Cmd>,
    /// Whether changes are gathered, and sent together.
    is_loading: bool,
}

impl RespClient {
    fn connect(address: &Address) -> Result<RespClient> {
        // First of all: it says what is wrong with a password.
        let server = Server::connect(address)?;
        let one = address.nodes.first().filter(|_| !address.is_cluster);
        let wire = one.map(Wire::connect).transpose()?;
        Ok(RespClient { server, wire, unanswered: 0, pending: Vec::new(), is_loading: false })
    }

    /// Sends what was gathered.
    #[inline]
    fn send(&mut self) -> Result<()> {
        if self.unanswered == 0 {
            return Ok(());
        }
        let count = std::mem::take(&mut self.unanswered);
        let okay = |answer: Answer<'_>| match answer {
            Answer::Okay => Ok(()),
            other => Err(other.is_none_to("SET")),
        };
        let Some(wire) = &mut self.wire else {
            let answers = self.server.ask_all("SET", std::mem::take(&mut self.pending))?;
            return answers.iter().try_for_each(|answer| okay(Answer::of(answer)));
        };
        wire.send()?;
        (0..count).try_for_each(|_| okay(wire.answer("SET")?))
    }

    /// Gives the answer to one command to `take`.
    #[inline]
    fn ask<T>(
        &mut self,
        call: &'static str,
        arguments: &[&[u8]],
        take: impl FnOnce(Answer<'_>) -> Result<T>,
    ) -> Result<T> {
        let Some(wire) = &mut self.wire else {
            return take(Answer::of(&self.server.ask(call, &command(call, arguments))?));
        };
        put(wire, call, arguments.len(), arguments.iter().copied());
        wire.send()?;
        take(wire.answer(call)?)
    }
}

fn command(call: &str, arguments: &[&[u8]]) -> Cmd {
    let mut command = cmd(call);
    arguments.iter().for_each(|argument| {
        command.arg(*argument);
    });
    command
}

#[inline]
fn put<'a>(wire: &mut Wire, call: &str, count: usize, arguments: impl Iterator<Item = &'a [u8]>) {
    wire.command(count + 1);
    wire.part(call.as_bytes());
    arguments.for_each(|argument| wire.part(argument));
}

/// Gives the value of an answer to `take`, or says that there is none.
#[inline]
fn value_of(call: &str, answer: &Answer<'_>, take: impl FnOnce(&[u8])) -> Result<bool> {
    match answer {
        Answer::Value(value) => {
            take(value);
            Ok(true)
        }
        Answer::Nothing => Ok(false),
        other => Err(other.is_none_to(call)),
    }
}

/// Gives the value of each of these keys to `take`, all of them asked for with one command.
fn values_by_wire<'k>(
    wire: &mut Wire,
    count: usize,
    keys: impl Iterator<Item = &'k [u8]>,
    mut take: impl FnMut(usize, Option<&[u8]>),
) -> Result<()> {
    put(wire, "MGET", count, keys);
    wire.send()?;
    match wire.answer("MGET")? {
        Answer::List(found) if found == count => {}
        other => return Err(other.is_none_to("MGET")),
    }
    for i in 0..count {
        if !value_of("MGET", &wire.answer("MGET")?, |value| take(i, Some(value)))? {
            take(i, None);
        }
    }
    Ok(())
}

/// The values of these keys, of one node of a cluster: there one command takes no keys of several slots.
fn values_of_node(node: &mut Connection, keys: &[Vec<u8>]) -> Result<Vec<Value>> {
    let each = keys.iter().map(|key| about("GET", key)).collect();
    let answers: Vec<Value> = said("GET", pipeline_of(each).query(node))?;
    if answers.len() == keys.len() {
        return Ok(answers);
    }
    Err(refused("GET", format!("{} values for {} keys", answers.len(), keys.len())))
}

impl Store for RespClient {
    #[inline]
    fn get(&mut self, key: &[u8], take: impl FnMut(&[u8])) -> Result<bool> {
        self.send()?;
        self.ask("GET", &[key], |answer| value_of("GET", &answer, take))
    }

    fn get_many(
        &mut self,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.send()?;
        if let Some(wire) = &mut self.wire {
            return values_by_wire(wire, keys.len(), keys.iter().copied(), take);
        }
        let each = keys.iter().map(|key| about("GET", key)).collect();
        for (i, answer) in self.server.ask_all("GET", each)?.iter().enumerate() {
            if !value_of("GET", &Answer::of(answer), |value| take(i, Some(value)))? {
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
        for node in &mut self.server.nodes {
            // A server may give a key again while its table changes its size.
            let (mut given, mut cursor) = (HashSet::new(), b"0".to_vec());
            loop {
                let mut step = cmd("SCAN");
                step.arg(&cursor).arg("COUNT").arg(AT_A_STEP);
                let (next, mut keys): (Vec<u8>, Vec<Vec<u8>>) = said("SCAN", step.query(node))?;
                keys.retain(|key| given.insert(key.clone()));
                match &mut self.wire {
                    _ if keys.is_empty() => {}
                    Some(wire) => {
                        let each = keys.iter().map(Vec::as_slice);
                        values_by_wire(wire, keys.len(), each, |i, value| {
                            value.into_iter().for_each(|value| take(&keys[i], value));
                        })?;
                    }
                    None => {
                        for (key, answer) in keys.iter().zip(&values_of_node(node, &keys)?) {
                            value_of("GET", &Answer::of(answer), |value| take(key, value))?;
                        }
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
        let arguments = [key, value];
        match &mut self.wire {
            Some(wire) => put(wire, "SET", arguments.len(), arguments.into_iter()),
            None => self.pending.push(command("SET", &arguments)),
        }
        self.unanswered += 1;
        if self.is_loading && self.unanswered < AT_ONCE { Ok(()) } else { self.send() }
    }

    fn settle(&mut self) -> Result<()> {
        self.is_loading = false;
        self.send()
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.send()?;
        self.ask("DEL", &[key], |answer| match answer {
            Answer::Number(removed) => Ok(removed > 0),
            other => Err(other.is_none_to("DEL")),
        })
    }

    fn close(mut self) -> Result<()> {
        self.send()
    }
}
