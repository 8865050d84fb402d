//! A btree store from end to end: orders by their numbers, an index of them by customer, and snapshots.
//!
//!     cargo run --example btree

use credenza::Result;
use credenza::btree::{BTree, Duplicates, Key, TableOptions};

fn main() -> Result<()> {
    let folder = tempfile::tempdir().map_err(|e| credenza::Error::io("make a folder", e))?;
    tour(&folder.path().join("orders"))
}

fn tour(path: &std::path::Path) -> Result<()> {
    let store = BTree::create(path)?;

    // Tables are made once: orders by numbers that the table gives them, and for each customer all of his numbers.
    let mut transaction = store.write()?;
    transaction.create_table_with("orders", &TableOptions::of_keys::<u64>().numbered(true))?;
    transaction
        .create_table_with("by customer", &TableOptions::new().duplicates(Duplicates::Sorted))?;
    transaction.commit()?;

    // Both change together, or neither does.
    for (customer, what) in
        [("carol", "tea"), ("alice", "bread"), ("carol", "milk"), ("bob", "salt")]
    {
        order(&store, customer, what)?;
    }

    // What is read is of one moment, whatever others commit meanwhile.
    let snapshot = store.read()?;
    order(&store, "carol", "sugar")?;
    let orders = snapshot.table("orders")?.expect("it was made").typed::<u64>()?;
    let by_customer = snapshot.multi_table("by customer")?.expect("it was made");
    for number in by_customer.values(b"carol") {
        let number = number?;
        let number = u64::from_bytes(&number).expect("the bytes of one were put in");
        let what = orders.get(&number)?.expect("an order has what it is of");
        println!("carol ordered {} as number {number}", String::from_utf8_lossy(what));
    }
    assert_eq!(orders.len(), 4);
    drop(snapshot);

    // In the order of the keys, from anywhere.
    let snapshot = store.read()?;
    let orders = snapshot.table("orders")?.expect("it was made").typed::<u64>()?;
    let latest: Vec<_> = orders.range(&3..).collect::<Result<_>>()?;
    println!("{} orders since number 3", latest.len());
    drop(snapshot);

    // What a savepoint begins can be given up, and the rest committed.
    let mut transaction = store.write()?;
    let savepoint = transaction.savepoint();
    transaction.table("orders")?.expect("it was made").clear()?;
    transaction.rollback_to(savepoint)?;
    transaction.commit()?;

    store.verify(|_, _| ())?;
    println!("{} bytes of the file are in use", store.stats()?.live_bytes);
    Ok(())
}

/// A new order, and that it is of this customer.
fn order(store: &BTree, customer: &str, what: &str) -> Result<()> {
    let mut transaction = store.write()?;
    let mut orders = transaction.table("orders")?.expect("it was made");
    let number = orders.typed::<u64>()?.append(what.as_bytes())?;
    let mut by_customer = transaction.multi_table("by customer")?.expect("it was made");
    // Values are in the order of their bytes: these have that of the numbers.
    by_customer.insert(customer.as_bytes(), &number.to_bytes())?;
    transaction.commit()
}
