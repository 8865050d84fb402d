//! Danger: a server holds data of others, which the workbench must neither read as its own nor delete;
//! and it may be gone, refuse, or say what makes no sense, at any moment. Where `redis-server` is
//! installed, real ones are started; else the tests that need one say so.

use credenza_bench::result::Report;
use redis::{Client, Connection, cmd};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

const PASSWORD: &str = "word";

/// A server in a folder of its own, which goes with it.
struct Server {
    process: Child,
    folder: TempDir,
}

impl Server {
    /// A server with these settings, ready for connections; `None` where there is no such program.
    fn start(settings: &[&str]) -> Option<Server> {
        let folder = tempfile::tempdir().unwrap();
        let spawned = Command::new("redis-server")
            .args(["--dir", folder.path().to_str()?, "--save", "", "--unixsocket"])
            .arg(folder.path().join("socket"))
            .args(settings)
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut process) = spawned else {
            println!("skipped: redis-server is not installed");
            return None;
        };
        let mut log = BufReader::new(process.stdout.take()?).lines().map_while(Result::ok);
        let is_ready = log.any(|line| line.contains("eady to accept connections"));
        // What it says later has a reader, too.
        std::thread::spawn(move || log.for_each(drop));
        let server = Server { process, folder };
        assert!(is_ready, "redis-server ended with {settings:?}");
        Some(server)
    }

    fn alone() -> Option<Server> {
        Server::start(&["--port", "0", "--requirepass", PASSWORD])
    }

    fn address(&self, db: u8) -> String {
        format!("unix://{}/socket?db={db}", self.folder.path().display())
    }

    fn connection(&self, db: u8) -> Connection {
        let url = format!("{}&pass={PASSWORD}", self.address(db));
        Client::open(url).unwrap().get_connection().unwrap()
    }

    fn keys(&self, db: u8) -> u64 {
        cmd("DBSIZE").query(&mut self.connection(db)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(dir: &Path, stores: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_credenza-bench"));
    command
        .arg(format!("--dir={}", dir.display()))
        .arg(format!("--json={}", dir.join("out.json").display()))
        .arg(format!("--stores={stores}"))
        .args(["--workload=churn", "--records=300"])
        .env("REDISCLI_AUTH", PASSWORD);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn report(dir: &Path, done: &Output, status: i32) -> Report {
    let said = format!("{}{}", text(&done.stdout), text(&done.stderr));
    assert_eq!(done.status.code(), Some(status), "{said}");
    serde_json::from_slice(&std::fs::read(dir.join("out.json")).unwrap()).unwrap()
}

#[test]
fn a_server_is_measured_and_left_as_it_was() {
    let Some(server) = Server::alone() else { return };
    let dir = tempfile::tempdir().unwrap();
    let () = cmd("SET").arg("mine").arg("kept").query(&mut server.connection(0)).unwrap();
    let stores = format!("hash,resp:{}", server.address(5));
    let mut run = command(dir.path(), &stores);
    run.args(["--phases=build,get-hit,scan,range,mixed", "--gets=1000", "--reopen", "--rounds=1"]);
    run.args(["--processes=2", "--threads=2", "--with-writer"]);
    let report = report(dir.path(), &run.output().unwrap(), 0);
    let info = report.stores.iter().find(|info| info.is_server).unwrap();
    assert_eq!((&*info.class, info.changes_class.as_deref()), ("memory", Some("memory")));
    assert_eq!(info.commits_class, "memory", "what replay says of it");
    assert!(info.version.starts_with("Redis ") && info.lacks.contains(&"range".to_owned()));
    assert!(report.notes.iter().any(|note| note.contains("another process")), "{:?}", report.notes);
    let of_server = || report.results.iter().filter(|result| result.store == info.store);
    let phases: Vec<&str> = of_server().map(|result| &*result.phase).collect();
    let all = ["build", "get-hit", "scan", "mixed"];
    assert_eq!(phases, all);
    assert!(of_server().all(|r| r.verified && r.class == "memory" && r.native));
    assert!(of_server().any(|result| result.file_bytes > 10_000));
    let groups = report.together.iter().filter(|r| r.store == info.store);
    assert!(groups.clone().all(|r| r.verified) && groups.count() == 8, "{:?}", report.together);
    assert_eq!((server.keys(0), server.keys(5)), (1, 0));
}

#[test]
fn a_database_with_data_is_refused_or_flushed_as_the_user_says() {
    let Some(server) = Server::alone() else { return };
    let dir = tempfile::tempdir().unwrap();
    // A key that the workload has, too.
    let () = cmd("SET").arg("mine").arg("kept").query(&mut server.connection(1)).unwrap();
    let stores = format!("hash,resp:{}", server.address(1));
    let few = ["--phases=build", "--rounds=1"];
    let run = |stores: &str| command(dir.path(), stores).args(few).output().unwrap();
    let refused = report(dir.path(), &run(&stores), 111);
    assert_eq!(refused.results.len(), 1, "hash is measured all the same");
    assert!(refused.failures[0].what.contains("not empty (1 key)"), "{:?}", refused.failures);
    let kept: String = cmd("GET").arg("mine").query(&mut server.connection(1)).unwrap();
    assert_eq!(kept, "kept");
    let flushed = report(dir.path(), &run(&format!("{stores}&flush=yes")), 0);
    assert_eq!((flushed.results.len(), server.keys(1)), (2, 0));

    let stores = stores.replace("db=1", "db=99");
    let absent = report(dir.path(), &run(&stores), 111);
    assert!(absent.failures[0].what.contains("out of range"), "{:?}", absent.failures);
    let wrong = command(dir.path(), &stores).args(few).env("REDISCLI_AUTH", "no").output().unwrap();
    let wrong = report(dir.path(), &wrong, 111);
    assert!(wrong.failures[0].what.contains("REDISCLI_AUTH"), "{:?}", wrong.failures);
}

#[test]
fn the_oracle_asks_a_server_too() {
    let Some(server) = Server::alone() else { return };
    let mut run = Command::new(env!("CARGO_BIN_EXE_credenza-bench"));
    run.args(["--oracle", "--records=200", "--gets=500"]).env("REDISCLI_AUTH", PASSWORD);
    let done = run.arg(format!("--stores=hash,resp:{}", server.address(0))).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(server.keys(0), 0);
}

#[test]
fn an_interrupted_run_takes_its_keys_away() {
    let Some(server) = Server::alone() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut run = command(dir.path(), &format!("resp:{}", server.address(0)));
    run.args(["--phases=build,get-hit", "--rounds=1000000", "--gets=500"]);
    let mut running = run.stdout(Stdio::null()).spawn().unwrap();
    while server.keys(0) == 0 {
        assert!(running.try_wait().unwrap().is_none(), "the run ended");
    }
    let id = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    running.wait().unwrap();
    assert_eq!(server.keys(0), 0);
}

/// A port that is free at this moment.
fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

/// Two nodes of a cluster, each with half of the slots, that know each other.
fn cluster() -> Option<[(Server, String); 2]> {
    let node = |slots: [&str; 2]| {
        let (port, bus) = (free_port(), free_port());
        let log = ["--appendonly", "yes", "--appendfsync", "always"];
        let settings = ["--port", &port, "--cluster-port", &bus, "--cluster-enabled", "yes"];
        let server = Server::start(&[&settings[..], &log].concat())?;
        let mut connection = Client::open(server.address(0)).unwrap().get_connection().unwrap();
        let () = cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(&slots).query(&mut connection).unwrap();
        Some((server, connection, port, bus))
    };
    let (one, mut first, port, _) = node(["0", "8191"])?;
    let (other, mut second, other_port, bus) = node(["8192", "16383"])?;
    let meet = ["MEET", "127.0.0.1", &other_port, &bus];
    let () = cmd("CLUSTER").arg(&meet).query(&mut first).unwrap();
    for connection in [&mut first, &mut second] {
        let is_well = |info: String| info.contains("cluster_state:ok");
        while !is_well(cmd("CLUSTER").arg("INFO").query(connection).unwrap()) {}
    }
    Some([(one, port), (other, other_port)])
}

#[test]
fn a_cluster_is_one_store() {
    let Some([(one, port), (other, other_port)]) = cluster() else { return };
    let dir = tempfile::tempdir().unwrap();
    let stores = format!("hash,resp:cluster://127.0.0.1:{port},127.0.0.1:{other_port}");
    let mut run = command(dir.path(), &stores);
    run.env_remove("REDISCLI_AUTH").args(["--gets=500", "--rounds=1"]);
    let run = run.args(["--phases=build,get-hit,get-many-hit,get-many-miss,scan", "--processes=2"]);
    let report = report(dir.path(), &run.output().unwrap(), 0);
    let info = &report.stores[1];
    assert_eq!((info.is_server, &*info.class), (true, "sync"));
    assert!(info.version.ends_with("a cluster of 2 nodes"), "{}", info.version);
    let of_cluster = report.results.iter().filter(|result| result.store == info.store);
    assert_eq!(of_cluster.filter(|result| result.verified).count(), 5, "{:?}", report.results);
    let keys = |server: &Server| {
        let mut node = Client::open(server.address(0)).unwrap().get_connection().unwrap();
        cmd("DBSIZE").query::<u64>(&mut node).unwrap()
    };
    assert_eq!((keys(&one), keys(&other)), (0, 0));
}

/// The address of a listener that gives every connection to `answer`.
fn listener(answer: fn(&mut dyn Read, &mut dyn Write)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(&mut &stream, &mut &stream));
        }
    });
    format!("resp:redis://{address}/0")
}

/// Answers like a server that is empty, until a value is to be stored.
fn ends_in_the_middle(input: &mut dyn Read, output: &mut dyn Write) {
    for line in BufReader::new(input).lines().map_while(Result::ok) {
        let answer = match &*line {
            "INFO" => "$16\r\nused_memory:100\n\r\n",
            "DBSIZE" => ":0\r\n",
            "DEL" => ":0\r\n",
            "SETINFO" | "AUTH" => "+OK\r\n",
            "CONFIG" => "-ERR not for you\r\n",
            "SET" => return,
            _ => continue,
        };
        if output.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn a_server_that_is_none_costs_its_own_figures_only() {
    let closes = listener(|_, _| {});
    let babbles = listener(|_, output| drop(output.write_all(b"220 mail.example ESMTP\r\n")));
    let middle = listener(ends_in_the_middle);
    let nobody = format!("resp:redis://127.0.0.1:{}", free_port());
    let dir = tempfile::tempdir().unwrap();
    let stores = [&closes, &babbles, &middle, &nobody, "hash"].join(",");
    let mut run = command(dir.path(), &stores);
    let done = run.args(["--phases=build,get-hit", "--gets=500", "--rounds=1"]).output().unwrap();
    let report = report(dir.path(), &done, 111);
    let measured: Vec<&str> = report.results.iter().map(|result| &*result.store).collect();
    assert_eq!(measured, ["hash", "hash"]);
    for store in [&closes, &babbles, &middle, &nobody] {
        assert!(report.failures.iter().any(|failure| failure.store == **store), "{store}");
    }
    let of = |store: &String| report.failures.iter().find(|f| f.store == *store).unwrap();
    assert!(of(&nobody).what.contains("Connection refused"), "{:?}", of(&nobody));
    let is_other = |what: &str| what.ends_with(" does not speak RESP") && !what.contains('\n');
    assert!(is_other(&of(&babbles).what), "{:?}", of(&babbles));
    let info = report.stores.iter().find(|info| info.store == middle);
    let info = info.unwrap_or_else(|| panic!("{:?}", of(&middle)));
    assert!(info.notes[1].contains("does not tell its settings"), "{:?}", info.notes);
    assert_eq!(of(&middle).phase.as_deref(), Some("build"), "{:?}", of(&middle));
}

#[test]
fn an_address_that_is_none_is_refused_and_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    for (stores, why) in [
        ("resp:redis://:secret@127.0.0.1/0", "REDISCLI_AUTH"),
        ("hash,resp:nonsense", "resp:unix:///SOCKET"),
        ("resp", "name a server"),
    ] {
        let few = ["--phases=build", "--rounds=1"];
        let done = command(dir.path(), stores).args(few).output().unwrap();
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(111), "{said}");
        assert!(said.contains(why) && !said.contains("secret"), "{said}");
    }
}
