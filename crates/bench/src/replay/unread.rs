//! What of a trace's file is not read, and what was done that it does not name: whoever uses a trace says so,
//! in the same words.

use super::told::Told;
use crate::report::text;
use credenza::Error;
use credenza::record::Trace;

/// What is to be said of the trace, each as the end of a sentence that begins with it; empty if all is read.
pub(crate) fn of(trace: &Trace) -> Vec<String> {
    let mut says = Vec::new();
    if trace.missing() > 0 {
        let missing = text::bytes(trace.missing());
        says.push(format!("was cut off: {missing} at its end, and what they said, are missing"));
    }
    if trace.behind() > 0 {
        says.push(format!(
            "ends {} before its file does, and what is behind is not read: half a block that a killed \
             program left, or something that was put there, as a second trace",
            text::bytes(trace.behind())
        ));
    }
    says
}

/// Both, of a trace that this is told of.
pub(crate) fn all(trace: &Trace, told: &Told) -> Vec<String> {
    of(trace).into_iter().chain(unnamed(told)).collect()
}

/// The same of records that the trace counts and does not name: they are not there where it is used.
pub(crate) fn unnamed(told: &Told) -> Vec<String> {
    let mut says = Vec::new();
    if let Some((read, named)) = told.scanned {
        let (read, named) = (text::count(read), text::count(named));
        says.push(format!(
            "names {named} records of a store of which a scan read {read}: the others are not known here, and \
             what is found of the store is not what the program had"
        ));
    }
    if told.loaded > 0 {
        let loaded = text::count(told.loaded);
        says.push(format!(
            "says that {loaded} records were loaded at once, and does not name them: they are not known here"
        ));
    }
    says
}

/// The error for a trace that has nothing of what is wanted; if it is no whole one, that may be why.
pub(crate) fn nothing(trace: &Trace, what: &str) -> Error {
    let because: String = of(trace).iter().map(|says| format!("; it {says}")).collect();
    Error::invalid(format!("{what}{because}")).at(trace.path())
}
