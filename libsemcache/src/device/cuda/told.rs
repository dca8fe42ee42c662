//! What is told of the GPUs to people.

use super::driver;
use super::machine::CudaMachine;
use crate::base::DeviceId;

impl CudaMachine {
    /// What the self-test found about a device, as text for people; `None` if the device is not up.
    #[must_use]
    pub fn describe(&self, device: DeviceId) -> Option<String> {
        let up = self.up(device.index())?;
        let size = |s: Option<usize>| s.map_or("never".into(), |n| format!("from {n} bytes"));
        let driver = driver::version().unwrap_or(0);
        Some(format!(
            "driver for CUDA {}.{}, cuBLAS {}.{}, direct copies of closed pages: in {} (rows {}), out {}",
            driver / 1000,
            driver / 10 % 100,
            up.cublas / 10000,
            up.cublas / 100 % 100,
            size(up.rules.line),
            size(up.rules.rows),
            if up.rules.out { "always" } else { "never" },
        ))
    }

    /// Whether the self-test of some device found no size of upload, or no download, that its copy engines make without
    /// the CPU.
    #[must_use]
    pub fn staged(&self) -> bool {
        (0..self.gpus.len())
            .filter_map(|i| self.up(i))
            .any(|u| u.rules.line.is_none() || !u.rules.out)
    }
}
