"""Facts about the machine that figures depend on. No names of hosts or users."""
import os
import pathlib
import platform


def _read(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _file_system(path):
    """Type, device kind and options of the mount that holds `path`."""
    best = ("", "?", "?")
    for line in (_read("/proc/mounts") or "").splitlines():
        _, mount, kind, options, *_ = line.split()
        if (str(path) + "/").startswith(mount.rstrip("/") + "/") and len(mount) >= len(best[0]):
            best = (mount, kind, options)
    return {"type": best[1], "options": best[2]}


def facts(directory):
    cpu = {}
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        cpu.setdefault(name.strip(), value.strip())
    memory = dict(line.split(":", 1) for line in (_read("/proc/meminfo") or "").splitlines())
    flags = cpu.get("flags", "").split()
    return {
        "cpu": cpu.get("model name", platform.machine()),
        "processors": os.cpu_count(),
        "virtual": "hypervisor" in flags,
        "avx512": "avx512f" in flags,
        "memory_mib": int(memory.get("MemTotal", "0 kB").split()[0]) // 1024,
        "swap_mib": int(memory.get("SwapTotal", "0 kB").split()[0]) // 1024,
        "kernel": platform.release(),
        "transparent_huge_pages": _read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "dirty_ratio": _read("/proc/sys/vm/dirty_ratio"),
        "file_system": _file_system(pathlib.Path(directory).resolve()),
    }


def load_average():
    return os.getloadavg()[0]
