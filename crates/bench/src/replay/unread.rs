//! What of a trace's file is not read: whoever uses a trace says so, in the same words.

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

/// The error for a trace that has nothing of what is wanted; if it is no whole one, that may be why.
pub(crate) fn nothing(trace: &Trace, what: &str) -> Error {
    let because: String = of(trace).iter().map(|says| format!("; it {says}")).collect();
    Error::invalid(format!("{what}{because}")).at(trace.path())
}
