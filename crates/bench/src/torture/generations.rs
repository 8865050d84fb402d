//! The operations for a store of which each transaction is a whole new file: many go into each, since nobody
//! writes everything anew for one change.
//!
//! Invariant: it does the same operations in the same order. Transactions of the user's stay whole, and no
//! generation is without a change.

use super::plan::{Operation, Plan, What};

/// Operations that are in one generation at least, where there are enough.
const LEAST: usize = 32;
/// Generations at least, where there are so many operations, behind the one that fills the store.
const GENERATIONS: usize = 4;
/// Records that are written anew for each operation, or there are fewer generations.
const WRITTEN: usize = 16;

impl Plan {
    /// How many operations are in a generation, or some more.
    pub(super) fn generation(&self) -> usize {
        let most = (self.operations.len() - self.filling) / GENERATIONS;
        (self.filling / WRITTEN).max(LEAST).min(most.max(1))
    }

    /// The same operations, with a transaction for each generation.
    pub(super) fn in_generations(mut self) -> Plan {
        let least = self.generation();
        let operations = std::mem::take(&mut self.operations);
        let (fill, rest) = operations.split_at(self.filling);
        self.end_generation(fill);
        self.filling = self.operations.len();
        let (mut generation, mut is_open) = (Vec::new(), false);
        for operation in rest {
            match operation.what {
                What::Begin => is_open = true,
                What::Commit => is_open = false,
                _ => generation.push(*operation),
            }
            if generation.len() >= least && !is_open {
                self.end_generation(&generation);
                generation.clear();
            }
        }
        self.end_generation(&generation);
        self
    }

    fn end_generation(&mut self, generation: &[Operation]) {
        let changes = generation.iter().any(|o| matches!(o.what, What::Put | What::Remove));
        self.operations.extend(changes.then(|| Operation::bare(What::Begin)));
        self.operations.extend(generation);
        self.operations.extend(changes.then(|| Operation::bare(What::Commit)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::{At, Found, judge};
    use super::*;
    use What::{Begin, Commit, Get, Put, Remove};

    /// What is done, one letter each.
    fn letters(plan: &Plan) -> String {
        let letter = |operation: &Operation| match operation.what {
            Begin => '(',
            Commit => ')',
            Put => 'p',
            Remove => 'r',
            _ => 'g',
        };
        plan.operations.iter().map(letter).collect()
    }

    /// A plan of these letters, of two keys, of which so many operations fill the store.
    fn plan(letters: &str, filling: usize) -> Plan {
        let what = |letter| match letter {
            '(' => Begin,
            ')' => Commit,
            'p' => Put,
            'r' => Remove,
            _ => Get,
        };
        let changes: Vec<_> =
            letters.chars().zip(0..).map(|(letter, i)| (what(letter), i % 2, &b"v"[..])).collect();
        filled(filling, &changes)
    }

    fn filled(filling: usize, changes: &[(What, u32, &[u8])]) -> Plan {
        let mut plan = Plan::of_changes(2, changes);
        plan.filling = filling;
        plan
    }

    #[test]
    fn the_same_is_done_in_generations_with_whole_transactions() {
        for (letters_of, filling, wanted) in [
            ("pppppppppp", 2, "(pp)(pp)(pp)(pp)(pp)"),
            ("pprgpgpg", 0, "(pp)(rg)(pg)(pg)"),
            // Where nothing changes there is none.
            ("ppggggpppg", 2, "(pp)gggg(pp)(pg)"),
            // A transaction is not divided, and one of less has company.
            ("(pgpg)(p)g(pp)pp", 0, "(pgpg)(pgpp)(pp)"),
            ("p(p)", 1, "(p)(p)"),
        ] {
            let plan = plan(letters_of, filling);
            let changes = plan.changes(0, plan.operations.len());
            let plan = plan.in_generations();
            assert_eq!(letters(&plan), wanted, "{letters_of}");
            assert_eq!(plan.changes(0, plan.operations.len()), changes, "{letters_of}");
            assert_eq!(plan.filling, if filling > 0 { filling + 2 } else { 0 }, "{letters_of}");
        }
    }

    #[test]
    fn large_stores_are_written_anew_less_often() {
        let generation =
            |filling, operations| plan(&"p".repeat(filling + operations), filling).generation();
        assert_eq!(generation(60, 400), 32);
        assert_eq!(generation(1000, 3000), 62);
        assert_eq!(generation(100_000, 3000), 750);
        assert_eq!((generation(10, 30), generation(10, 3), generation(0, 1)), (7, 1, 1));
    }

    /// What may be found: the last generation that was acknowledged, or the one that had begun, whole.
    #[test]
    fn old_and_torn_generations_are_losses() {
        let value = [b"a", b"b", b"c", b"d", b"e", b"f"];
        let changes: Vec<_> =
            value.iter().zip(0..).map(|(value, i)| (Put, i % 2, &value[..])).collect();
        // Two changes each, whatever is the least.
        let mut plan = filled(2, &changes);
        let operations = std::mem::take(&mut plan.operations);
        operations.chunks(2).for_each(|two| plan.end_generation(two));
        assert_eq!(letters(&plan), "(pp)(pp)(pp)");
        let found = |records: &[(u8, &[u8])]| -> Found {
            records.iter().map(|(key, value)| (vec![*key], value.to_vec())).collect()
        };
        let (first, second) = (found(&[(0, b"a"), (1, b"b")]), found(&[(0, b"c"), (1, b"d")]));
        // The second has been published; of the third something was done.
        let at = At { begun: 11, done: 10, synced: 0 };
        let judged = |records: &Found, at| {
            let judged = judge(&plan, true, at, records);
            (judged.acknowledged, judged.lost, judged.wrong, judged.is_torn)
        };
        assert_eq!(judged(&second, at), (4, 0, 0, false));
        // An older one: what was changed in the generations since then is lost.
        assert_eq!(judged(&first, at), (4, 2, 0, false));
        assert_eq!(judged(&Found::new(), at), (4, 4, 0, false));
        // A mixture of two is of none; nor may half of one be there.
        assert_eq!(judged(&found(&[(0, b"c"), (1, b"b")]), at), (4, 1, 0, true));
        assert_eq!(judged(&found(&[(0, b"c")]), at), (4, 1, 0, true));
        assert_eq!(judged(&found(&[(0, b"e"), (1, b"d")]), at), (4, 0, 0, true));
        // The third is there, or not, once it is being published; and not before.
        let third = found(&[(0, b"e"), (1, b"f")]);
        assert_eq!(judged(&third, at), (4, 0, 0, true));
        let at = At { begun: 12, done: 11, synced: 0 };
        assert_eq!((judged(&second, at), judged(&third, at)), ((4, 0, 0, false), (4, 0, 0, false)));
    }
}
