//! The machine whose devices are tested.

use semcache::base::config::{CudaSet, Memory};
use semcache::device::api::Backend;
use semcache::device::{cuda, sim};
use testkit::devices;

/// The devices that `SEMCACHE_TEST_DEVICES` names: `cuda`, `cuda:LIST`, or nothing for two simulated ones.
pub(crate) fn open() -> &'static dyn Backend {
    let name = devices::named();
    if !name.starts_with("cuda") {
        let config = sim::SimConfig {
            devices: 2,
            ..sim::SimConfig::default()
        };
        return Box::leak(Box::new(sim::SimMachine::new(config).unwrap()));
    }
    let set = match name.strip_prefix("cuda:") {
        None => CudaSet::All,
        Some(list) => CudaSet::List(list.split(',').map(|i| i.parse().unwrap()).collect()),
    };
    let hooks = cuda::Hooks {
        environment: |name| std::env::var(name).ok(),
        choose: |all| (all.to_vec(), 1),
        secure: false,
    };
    struct Log;
    impl log::Log for Log {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }
        fn log(&self, record: &log::Record<'_>) {
            println!("{}", record.args());
        }
        fn flush(&self) {}
    }
    let _ = log::set_logger(&Log);
    log::set_max_level(log::LevelFilter::Debug);
    let began = std::time::Instant::now();
    let machine = Box::leak(Box::new(
        cuda::open(&set, Memory::Percent(50), &hooks).expect("CUDA devices"),
    ));
    println!("opened in {:?}", began.elapsed());
    let began = std::time::Instant::now();
    machine.bring_up().expect("contexts");
    println!("up in {:?}", began.elapsed());
    for i in 0..machine.devices().len() {
        let id = semcache::base::DeviceId(u8::try_from(i).unwrap());
        println!("{:?}", machine.describe(id));
    }
    machine
}
