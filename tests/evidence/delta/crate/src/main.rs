//! One client of the crate dynamodb_lock, which locks as its parent says.
//!
//! Its argument is JSON: `build` (0.4.3, 0.6.1 or 0.6.1-pr6), `endpoint`, and `options` by the crate's own names. Each
//! line of its input is answered by one line:
//!
//!     {"do": "acquire", "data": TEXT or null}  {"acquired": true, "took_over": BOOL, "data": TEXT or null},
//!                                              {"acquired": false}, or {"error": NAME}
//!     {"do": "update", "data": TEXT or null}   {"updated": true}, or {"error": NAME}
//!     {"do": "release"}                        {"released": BOOL}, or {"error": NAME}

use std::collections::HashMap;
use std::io::{self, BufRead, Write};

use rusoto_core::Region;
use rusoto_dynamodb::DynamoDbClient;
use serde_json::{json, Value};

fn say(answer: Value) {
    println!("{}", answer);
    io::stdout().flush().expect("a reader");
}

/// The three states of the crate have the same names in different types, except for how a client is made.
macro_rules! driver {
    ($name:ident, $crate_name:ident, $make:expr) => {
        mod $name {
            use super::*;
            use $crate_name::{DynamoDbLockClient, DynamoDbOptions, DynamoError, LockItem};

            /// The name of an error's variant, without what it carries.
            fn error(found: DynamoError) -> Value {
                let told = format!("{:?}", found);
                json!({ "error": told.split('(').next().unwrap_or("") })
            }

            async fn answer(client: &DynamoDbLockClient, held: &mut Option<LockItem>, asked: &Value) -> Value {
                let data = asked["data"].as_str();
                match asked["do"].as_str().expect("do") {
                    "acquire" => match client.try_acquire_lock(data).await {
                        Ok(Some(lock)) => {
                            let told =
                                json!({"acquired": true, "took_over": lock.acquired_expired_lock, "data": lock.data});
                            *held = Some(lock);
                            told
                        }
                        Ok(None) => json!({"acquired": false}),
                        Err(found) => error(found),
                    },
                    "update" => {
                        let mut lock = held.clone().expect("nothing is held");
                        lock.data = data.map(String::from);
                        match client.update_data(&lock).await {
                            Ok(updated) => {
                                *held = Some(updated);
                                json!({"updated": true})
                            }
                            Err(found) => error(found),
                        }
                    }
                    "release" => match client.release_lock(held.as_ref().expect("nothing is held")).await {
                        Ok(released) => json!({"released": released}),
                        Err(found) => error(found),
                    },
                    other => panic!("unknown call {}", other),
                }
            }

            pub async fn run(region: Region, options: HashMap<String, String>) {
                let make: fn(Region, DynamoDbOptions) -> DynamoDbLockClient = $make;
                let client = make(region, DynamoDbOptions::from_map(options));
                let mut held = None;
                say(json!({"ready": true}));
                for line in io::stdin().lock().lines() {
                    let asked: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
                    say(answer(&client, &mut held, &asked).await);
                }
            }
        }
    };
}

driver!(old, lock_0_4_3, |region, options| DynamoDbLockClient::new(DynamoDbClient::new(region), options));
driver!(new, lock_0_6_1, |region, options| {
    DynamoDbLockClient::for_region(region.clone()).with_client(DynamoDbClient::new(region)).with_options(options)
});
driver!(fixed, lock_0_6_1_pr6, |region, options| {
    DynamoDbLockClient::for_region(region.clone()).with_client(DynamoDbClient::new(region)).with_options(options)
});

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let told: Value = serde_json::from_str(&std::env::args().nth(1).expect("an argument")).expect("JSON");
    let options: HashMap<String, String> = serde_json::from_value(told["options"].clone()).expect("options");
    let region = Region::Custom {
        name: "us-east-1".to_string(),
        endpoint: told["endpoint"].as_str().expect("endpoint").to_string(),
    };
    match told["build"].as_str().expect("build") {
        "0.4.3" => old::run(region, options).await,
        "0.6.1" => new::run(region, options).await,
        "0.6.1-pr6" => fixed::run(region, options).await,
        other => panic!("unknown build {}", other),
    }
}
