//! The comparing process: all stores, and the model that says what is right.

use super::super::mixed::Grouping;
use super::super::protocol::Spec;
use super::Oracle;
use super::note::{Asked, Note};
use super::subject::{Contents, Opening, Subject};
use super::verdict::{Answer, Difference, Given};
use crate::driver::{Changes, Shape, with_driver};
use crate::workload::changes::{Model, Script, Step};
use crate::workload::{Action, Content, Inputs, Mix, Mixes};
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The comparing process: opens all stores, and says what came of it.
pub(in super::super) fn compare(spec: &Spec, oracle: &Oracle, inputs: &Inputs) -> Result<Compared> {
    let mixes = &spec.mixes;
    let data =
        Shape { duplicates: mixes.duplicates(), ..Shape::of(&inputs.records).with(&inputs.fresh) };
    let class = class_of(mixes);
    let note = Note::create(&spec.folder)?;
    note.question(&Asked { what: "opening".to_owned(), ..Asked::default() })?;
    let open = |(number, (name, library)): (usize, &(String, Option<PathBuf>))| {
        note.store(number)?;
        let (library, folder) = (library.as_deref(), spec.folder.as_path());
        let shape = &Shape { settings: spec.settings.of(name), ..data };
        with_driver(name, Opening { name, library, folder, shape, class })
            .unwrap_or_else(|| Err(Error::invalid(format!("there is no store '{name}'"))))
            .map_err(|e| Error::invalid(format!("{name}: {e}")))
    };
    let subjects = oracle.stores.iter().enumerate().map(open).collect::<Result<Vec<_>>>()?;
    let Inputs { records, fresh, queries, .. } = inputs;
    let scripts = mixes.scripts(mixes.last(), records, fresh, queries.hit.len(), spec.seed);
    let model = mixes.model(records, fresh);
    let mut comparison = Comparison { subjects, model, note, done: Compared::default() };
    comparison.done.difference = comparison.all(mixes, &scripts, oracle.every, inputs);
    comparison.leave()
}

/// The class of all changes, as all mixes are done with the same stores: synced where one of them is, and in
/// transactions where one has such.
fn class_of(mixes: &Mixes) -> Changes {
    if mixes.iter().any(|mix| mix.sync) {
        Changes::Sync
    } else if mixes.iter().any(|mix| mix.transactions.is_some()) {
        Changes::Buffered
    } else {
        Changes::AtClose
    }
}

/// What the comparing process says.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Compared {
    pub(super) operations: u64,
    pub(super) full_checks: u64,
    pub(super) difference: Option<Difference>,
}

struct Comparison<'a> {
    subjects: Vec<Box<dyn Subject>>,
    model: Model<'a>,
    note: Note,
    done: Compared,
}

impl Comparison<'_> {
    /// The first difference.
    fn all(
        &mut self,
        mixes: &Mixes,
        scripts: &[Script],
        every: usize,
        inputs: &Inputs,
    ) -> Option<Difference> {
        for (key, value) in inputs.records.iter() {
            let what = "insert of the data";
            self.ask(what, key);
            let answers = self.each(|subject| subject.insert(key, value).map(|()| Answer::Done));
            let difference = self.differs(what, key, Answer::Done, answers);
            if difference.is_some() {
                return difference;
            }
        }
        self.all_do("the end of the data", |subject| subject.filled())
            .or_else(|| self.full_check("full check"))
            .or_else(|| {
                let mut all = mixes.iter().zip(scripts);
                all.find_map(|(mix, script)| self.mix(mix, script, every))
            })
            .or_else(|| self.every_key())
            .or_else(|| self.full_check("full check"))
            .or_else(|| self.all_do("close", |subject| subject.close()))
            .or_else(|| self.full_check("full check after closing"))
    }

    /// The same of what one mix does, as long as it has time.
    fn mix(&mut self, mix: &Mix, script: &Script, every: usize) -> Option<Difference> {
        let again = || self.all_do("close and open again", |subject| subject.reopen());
        let mut difference = mix.reopen.then(again).flatten();
        let mut grouping = Grouping::new(mix.transactions);
        let ends = mix.stop.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        for (step, key, value) in script.iter() {
            if difference.is_some() || ends.is_some_and(|ends| Instant::now() >= ends) {
                break;
            }
            if grouping.begins() {
                difference = self.all_do("begin", |subject| subject.begin());
            }
            difference = difference.or_else(|| self.step(step, key, value));
            if difference.is_none() && grouping.ends() {
                difference = self.all_do("commit", |subject| subject.commit());
            }
            if difference.is_none() && self.done.operations.is_multiple_of(every as u64) {
                difference = self.full_check("full check");
            }
        }
        difference.or_else(|| {
            let commit = |all: &mut Self| all.all_do("commit", |subject| subject.commit());
            grouping.is_open_at_end().then(|| commit(self)).flatten()
        })
    }

    /// Has every store do something that has no answer; the difference, where one fails.
    fn all_do(
        &mut self,
        what: &str,
        mut each: impl FnMut(&mut Box<dyn Subject>) -> Result<()>,
    ) -> Option<Difference> {
        self.ask(what, b"");
        let answers = self.each(|subject| each(subject).map(|()| Answer::Done));
        self.differs(what, b"", Answer::Done, answers)
    }

    /// Notes what the stores are going to be asked.
    fn ask(&self, what: &str, key: &[u8]) {
        let (operation, key) = (self.done.operations, key.escape_ascii().to_string());
        // A note that is lost costs the name of a store that takes the process with it, and nothing else.
        let _ = self.note.question(&Asked { operation, what: what.to_owned(), key });
    }

    /// What each store does. An error is an answer, too.
    fn each(
        &mut self,
        mut ask: impl FnMut(&mut Box<dyn Subject>) -> Result<Answer>,
    ) -> Vec<Answer> {
        let note = &self.note;
        let answers = self.subjects.iter_mut().enumerate().map(|(number, subject)| {
            // As above.
            let _ = note.store(number);
            ask(subject).unwrap_or_else(|e| Answer::Failed(e.to_string()))
        });
        answers.collect()
    }

    /// Lets go of all stores: that is a call of their libraries, too.
    fn leave(self) -> Result<Compared> {
        self.ask("the end of all", b"");
        for (number, subject) in self.subjects.into_iter().enumerate() {
            // As in `ask`: what was found is not lost for want of a note.
            let _ = self.note.store(number);
            drop(subject);
        }
        Ok(self.done)
    }

    fn step(&mut self, step: Step, key: &[u8], value: &[u8]) -> Option<Difference> {
        self.done.operations += 1;
        let item = step.item as usize;
        let now = self.model.now(item);
        let held = Answer::Values(now.iter().map(|value| value.to_vec()).collect());
        let count = step.scan_len as usize;
        let name = step.action.name();
        self.ask(name, key);
        let (expected, answers) = match step.action {
            Action::Get => (held, self.each(|subject| subject.get(key))),
            Action::Insert | Action::Update => (
                Answer::Done,
                self.each(|subject| subject.insert(key, value).map(|()| Answer::Done)),
            ),
            Action::Add => {
                (Answer::Done, self.each(|subject| subject.add(key, value).map(|()| Answer::Done)))
            }
            Action::Remove => (
                Answer::Removed(now.is_some()),
                self.each(|subject| subject.remove(key).map(Answer::Removed)),
            ),
            Action::ReadModifyWrite => (
                held,
                self.each(|subject| {
                    let answer = subject.get(key)?;
                    subject.insert(key, value).map(|()| answer)
                }),
            ),
            Action::Scan => {
                let range = self.model.range(item).take(count);
                let range = range.map(|(key, value)| (key.to_vec(), value.into_owned()));
                let expected = Answer::Range(range.collect());
                (expected, self.each(|subject| subject.range(key, count)))
            }
            // It changes nothing.
            Action::TableScan => return self.whole(name),
        };
        self.model.apply(step);
        self.differs(name, key, expected, answers)
    }

    /// The difference of answers to one question, if there is any.
    fn differs(
        &self,
        what: &str,
        key: &[u8],
        expected: Answer,
        answers: Vec<Answer>,
    ) -> Option<Difference> {
        let wrong = answers.iter().find(|answer| **answer != expected)?;
        let given = |(subject, answer): (&dyn Subject, &Answer)| Given {
            store: subject.name().to_owned(),
            answer: match *answer == expected {
                true => answer.in_words_beside(wrong),
                false => answer.in_words_beside(&expected),
            },
            differs: *answer != expected,
        };
        Some(Difference {
            operation: self.done.operations,
            what: what.to_owned(),
            key: key.escape_ascii().to_string(),
            model: expected.in_words_beside(wrong),
            answers: self.subjects.iter().map(Box::as_ref).zip(&answers).map(given).collect(),
        })
    }

    /// Looks up every key that the stores may have had.
    fn every_key(&mut self) -> Option<Difference> {
        (0..self.model.items()).find_map(|item| {
            let key = self.model.key(item);
            let now = self.model.now(item);
            let held = Answer::Values(now.iter().map(|value| value.to_vec()).collect());
            let what = "get of every key in the end";
            self.ask(what, key);
            let answers = self.each(|subject| subject.get(key));
            self.differs(what, key, held, answers)
        })
    }

    /// Reads every store through, also backwards where that can be.
    fn full_check(&mut self, what: &str) -> Option<Difference> {
        self.done.full_checks += 1;
        self.whole(what).or_else(|| {
            // Sums do not know the order of a key's values.
            let order = self.model.has_duplicates().then(|| self.first_record(what)).flatten();
            order.or_else(|| self.backwards(&format!("{what} backwards"), self.model.content()))
        })
    }

    /// Reads every store through. Only where the sums differ, all records are put side by side.
    fn whole(&mut self, what: &str) -> Option<Difference> {
        self.ask(what, b"");
        let expected = self.model.content();
        let sums = self.each(|subject| {
            let is_right = subject.content()? == expected;
            Ok(if is_right { Answer::Done } else { Answer::Contradicts })
        });
        if sums.iter().all(|answer| *answer == Answer::Done) {
            return None;
        }
        // Where all records are as they should be now, the store gives others each time.
        self.first_record(what).or_else(|| self.differs(what, b"", Answer::Done, sums))
    }

    /// Reads every store through backwards that can be read so.
    fn backwards(&mut self, what: &str, expected: Content) -> Option<Difference> {
        self.ask(what, b"");
        let answers = self.each(|subject| subject.backwards(expected));
        let difference = self.differs(what, b"", Answer::Done, answers);
        if difference.is_some() || !self.model.has_duplicates() {
            return difference;
        }
        let answers = self.each(|subject| subject.values_backwards());
        self.differs(what, b"", Answer::Done, answers)
    }

    /// The first key that a store has other values for than it should.
    fn first_record(&mut self, what: &str) -> Option<Difference> {
        let mut expected = Contents::new();
        for item in 0..self.model.items() {
            let values: Vec<_> = self.model.values(item).map(Cow::into_owned).collect();
            if !values.is_empty() {
                expected.insert(self.model.key(item).to_vec(), values);
            }
        }
        let note = &self.note;
        let records = self.subjects.iter_mut().enumerate().map(|(number, subject)| {
            let _ = note.store(number);
            subject.records()
        });
        let all: Vec<Result<Contents>> = records.collect();
        let first = |own: &Contents| {
            let keys = expected.keys().chain(own.keys());
            keys.filter(|key| expected.get(*key) != own.get(*key)).min().cloned()
        };
        let key = all.iter().flatten().filter_map(first).min()?;
        let has = |own: &Contents| Answer::Values(own.get(&key).cloned().unwrap_or_default());
        let answers = all.iter().map(|own| match own {
            Ok(own) => has(own),
            Err(e) => Answer::Failed(e.to_string()),
        });
        let answers = answers.collect();
        self.differs(what, &key, has(&expected), answers)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::liar::{Liar, Lie};
    use super::super::super::tests::mix;
    use super::super::subject::Open;
    use super::*;
    use crate::workload::{Phase, Place, Records, Workload};

    /// What comes of comparing an honest store with one that lies.
    fn compared(lie: Lie, table: &str, every: usize) -> Compared {
        compared_mix(lie, mix(table), every)
    }

    fn compared_mix(lie: Lie, mix: Mix, every: usize) -> Compared {
        let folder = tempfile::tempdir().unwrap();
        let found = Workload::find("tokens").unwrap();
        let workload = Workload {
            records: Some(300),
            gets: 2000,
            mixes: mix.into(),
            phases: Some(vec![Phase::Mixed]),
            ..found
        };
        let (inputs, _) = Inputs::prepare(&workload).unwrap();
        let shape = Shape::of(&inputs.records);
        let open = |name: &str, lie| {
            let path = folder.path().join(name);
            Open::create(name, Liar::who(lie), path, &shape, class_of(&workload.mixes)).unwrap()
        };
        let subjects = vec![open("honest", Lie::None), open("liar", lie)];
        let (records, fresh) = (&inputs.records, &inputs.fresh);
        let mixes = &workload.mixes;
        let scripts = mixes.scripts(mixes.last(), records, fresh, 2000, 1);
        let model = mixes.model(records, fresh);
        let note = Note::create(folder.path()).unwrap();
        let mut comparison = Comparison { subjects, model, note, done: Compared::default() };
        comparison.done.difference = comparison.all(mixes, &scripts, every, &inputs);
        comparison.done
    }

    const ALL: &str =
        "get = 4\ninsert = 1\nupdate = 2\nremove = 1\nscan = 1\nread-modify-write = 1";

    #[test]
    fn honest_stores_agree() {
        let done = compared(Lie::None, ALL, 500);
        assert!(done.difference.is_none(), "{done:?}");
        // At first, four times on the way, at the end, and after closing.
        assert_eq!((done.operations, done.full_checks), (2000, 7));
    }

    /// Danger: what is only wrong in a transaction, or in a store that was opened again, is not seen. The
    /// stores here refuse a transaction that is begun twice, or is open when they are closed.
    #[test]
    fn transactions_syncs_and_reopening_are_done_and_compared() {
        for more in [
            "transactions = 7",
            "transactions = \"all\"",
            "transactions = \"tmp\"",
            "sync = true",
            "reopen = true",
            "reopen = true\ntransactions = 30\nsync = true",
        ] {
            let done = compared(Lie::None, &format!("{ALL}\n{more}"), 500);
            assert!(done.difference.is_none(), "{more}: {done:?}");
            assert_eq!((done.operations, done.full_checks), (2000, 7), "{more}");
            let difference = compared(Lie::KeepsOld, &format!("{ALL}\n{more}"), 500).difference;
            let words = difference.unwrap_or_else(|| panic!("{more}: not told")).in_words();
            assert!(words.contains("wrong is liar"), "{more}: {words}");
        }
        // What is lost where the store is closed is told by the first full check behind that.
        let lost = compared(Lie::ForgetsLast, "get = 1\nupdate = 1\nreopen = true", 1);
        let difference = lost.difference.unwrap();
        assert_eq!(difference.operation, 1, "{difference:?}");
    }

    #[test]
    fn a_mix_ends_when_its_time_is_over() {
        let mut mix = mix(ALL);
        mix.stop.seconds = Some(0);
        let done = compared_mix(Lie::None, mix, 500);
        assert!(done.difference.is_none(), "{done:?}");
        assert_eq!((done.operations, done.full_checks), (0, 3));
    }

    #[test]
    fn every_lie_is_told_with_the_store_that_lied() {
        use Lie::{
            ForgetsLast, KeepsOld, LosesOne, OnlyFirstByte, RangeLate, RangeShort, RangeSwapped,
            RemovesAll, RemovesNot,
        };
        let told = |lie| {
            let done = compared(lie, ALL, 500);
            let difference = done.difference.unwrap_or_else(|| panic!("{lie:?} was not told"));
            let wrong = difference.answers.iter().filter(|given| given.differs);
            assert_eq!(wrong.map(|given| &*given.store).collect::<Vec<_>>(), ["liar"], "{lie:?}");
            let words = difference.in_words();
            assert!(words.contains("wrong is liar") && words.contains("expected"), "{words}");
            println!("{lie:?}: {words}");
            difference
        };
        for lie in [RangeShort, RangeLate, RangeSwapped] {
            assert_eq!(told(lie).what, "scan");
        }
        assert_eq!(told(RemovesAll).what, "remove");
        assert_eq!(told(ForgetsLast).what, "full check after closing");
        let lost = told(LosesOne);
        assert_eq!((&*lost.what, lost.operation), ("full check", 0));
        assert_eq!(lost.answers[1].answer, "nothing");
        for lie in [KeepsOld, OnlyFirstByte, RemovesNot] {
            assert!((1..500).contains(&told(lie).operation));
        }
    }

    #[test]
    fn a_table_scan_is_compared_whole_and_is_an_operation() {
        let table = "get = 6\nupdate = 1\nremove = 1\ntable-scan = 1";
        let done = compared(Lie::None, table, 5000);
        assert!(done.difference.is_none(), "{done:?}");
        // Those before, at the end, and after closing.
        assert_eq!((done.operations, done.full_checks), (2000, 3));
        let difference = compared(Lie::ScansShortOnce, table, 5000).difference.unwrap();
        let words = difference.in_words();
        assert!((1..100).contains(&difference.operation), "{words}");
        assert!(words.contains(", table-scan, key") && words.contains("wrong is liar"), "{words}");
    }

    #[test]
    fn a_length_that_cannot_be_is_refused_before_anything_is_copied() {
        let difference = compared(Lie::GetsLong, ALL, 500).difference.unwrap();
        let words = difference.in_words();
        assert!(words.contains("an error: it gave a key or value of 1048576 bytes"), "{words}");
        assert!(words.contains("wrong is liar"), "{words}");
    }

    #[test]
    fn the_store_that_is_asked_is_noted_before_it_is() {
        /// A store that looks, when it is asked, what is noted.
        struct Looks(PathBuf, &'static str);
        impl Subject for Looks {
            fn name(&self) -> &str {
                self.1
            }
            fn filled(&mut self) -> Result<()> {
                Ok(())
            }
            fn reopen(&mut self) -> Result<()> {
                Ok(())
            }
            fn begin(&mut self) -> Result<()> {
                Ok(())
            }
            fn commit(&mut self) -> Result<()> {
                Ok(())
            }
            fn insert(&mut self, key: &[u8], _: &[u8]) -> Result<()> {
                let (number, asked) = Note::read(&self.0).unwrap();
                assert_eq!((number, &*asked.key), (usize::from(self.1 == "two"), "a key"));
                assert_eq!((asked.operation, &*asked.what, key), (3, "insert", &b"a key"[..]));
                Ok(())
            }
            fn add(&mut self, _: &[u8], _: &[u8]) -> Result<()> {
                Ok(())
            }
            fn get(&mut self, _: &[u8]) -> Result<Answer> {
                Ok(Answer::Done)
            }
            fn remove(&mut self, _: &[u8]) -> Result<bool> {
                Ok(false)
            }
            fn range(&mut self, _: &[u8], _: usize) -> Result<Answer> {
                Ok(Answer::Done)
            }
            fn content(&mut self) -> Result<Content> {
                Ok(Content::default())
            }
            fn backwards(&mut self, _: Content) -> Result<Answer> {
                Ok(Answer::Done)
            }
            fn values_backwards(&mut self) -> Result<Answer> {
                Ok(Answer::Done)
            }
            fn records(&mut self) -> Result<Contents> {
                Ok(Contents::new())
            }
            fn close(&mut self) -> Result<()> {
                Ok(())
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let note = Note::create(folder.path()).unwrap();
        let looks = |name| Box::new(Looks(folder.path().to_owned(), name)) as Box<dyn Subject>;
        let nothing = Records::default();
        let model = Model::of(&nothing, &nothing, &mix("insert = 1"));
        let done = Compared { operations: 3, ..Compared::default() };
        let subjects = vec![looks("one"), looks("two")];
        let mut comparison = Comparison { subjects, model, note, done };
        comparison.ask("insert", b"a key");
        let asked = comparison.each(|subject| subject.insert(b"a key", b"").map(|()| Answer::Done));
        assert_eq!(asked, [Answer::Done, Answer::Done]);
    }

    /// What comes of a store that puts values of a key here, where they belong there.
    fn compared_places(here: Place, there: Place) -> Compared {
        let folder = tempfile::tempdir().unwrap();
        let word = if there == Place::First { "first" } else { "last" };
        let mix = mix(&format!("get = 1\ninsert = 3\nremove = 1\nduplicates = \"{word}\""));
        let phases = Some(vec![Phase::Mixed]);
        let found = Workload::find("tokens").unwrap();
        let mixes = mix.into();
        let workload = Workload { records: Some(100), gets: 800, mixes, phases, ..found };
        let (inputs, _) = Inputs::prepare(&workload).unwrap();
        let shape = Shape { duplicates: Some(here), ..Shape::of(&inputs.records) };
        let (name, library, shape, class) = ("btree", None, &shape, class_of(&workload.mixes));
        let opening = Opening { name, library, folder: folder.path(), shape, class };
        let subjects = vec![with_driver(name, opening).unwrap().unwrap()];
        let (records, fresh) = (&inputs.records, &inputs.fresh);
        let mixes = &workload.mixes;
        let scripts = mixes.scripts(mixes.last(), records, fresh, 800, 1);
        let model = mixes.model(records, fresh);
        let note = Note::create(folder.path()).unwrap();
        let mut comparison = Comparison { subjects, model, note, done: Compared::default() };
        comparison.done.difference = comparison.all(mixes, &scripts, 100, &inputs);
        comparison.done
    }

    #[test]
    fn values_of_a_key_in_another_order_are_told() {
        for [here, there] in [[Place::First; 2], [Place::Last; 2]] {
            let done = compared_places(here, there);
            assert!(done.difference.is_none(), "{done:?}");
            assert_eq!(done.operations, 800);
        }
        for (here, there) in [(Place::First, Place::Last), (Place::Last, Place::First)] {
            assert!(compared_places(here, there).difference.is_some(), "{here:?}, {there:?}");
        }
    }

    #[test]
    fn a_scan_backwards_that_is_not_the_one_forwards_is_told() {
        for (lie, says) in [
            (Lie::BackShort, "not what it gives forwards: 299 records, of 300"),
            (Lie::BackSwapped, "behind the lower "),
        ] {
            let difference = compared(lie, "get = 1\nremove = 1", 100).difference.unwrap();
            assert_eq!((&*difference.what, difference.operation), ("full check backwards", 0));
            assert!(difference.in_words().contains(says), "{difference:?}");
        }
    }

    #[test]
    fn what_no_answer_shows_a_full_check_does() {
        let done = compared(Lie::KeepsOld, "update = 1", 100);
        let difference = done.difference.unwrap();
        assert_eq!((&*difference.what, difference.operation), ("full check", 100));
    }
}
