"""Plays test vectors (sim/VECTORS.md) on the generated top, behind cocotbext-axi, with random pauses.

Beside the vectors' own expectations: bursts do not cross 4 KiB and are no longer than 16 beats; sizes, kinds and
lengths are as the top ties them; where the port is AXI3 (it has WID), write data carry the ID of their address;
a payload stays while its valid waits; the interrupt is level, and TIME counts the simulator's cycles.
"""
import json
import os
import pathlib
import random
import struct

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam, AxiResp
from cocotbext.axi.axi_channels import AxiARSink, AxiAWSink

# offsets of hw/abi that vectors do not use
TIME_LO, TIME_HI, ACCESS, IRQ_STATUS = 0x0C0, 0x0C4, 0x0C8, 0x048
MEMORY = 1 << 29
# limit in cycles for a start of such a small network, with or without pauses
LIMIT = 200_000


def pauses(rng, mean):
    """A channel that stops for a while now and then: `mean` per cent of the cycles."""
    while True:
        stop = rng.randrange(100) < mean
        for _ in range(rng.randint(1, 8)):
            yield stop


class Bench:
    def __init__(self, dut, rng):
        self.dut, self.rng, self.cycles = dut, rng, 0
        self.regs = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), dut.clk, dut.resetn, reset_active_level=False)
        self.rams = []
        if hasattr(dut, "M00_AXI_wid"):  # AXI3 has fewer bits of length and more of lock; the library knows AXI4
            for sink in (AxiARSink, AxiAWSink):
                name = "ar" if sink is AxiARSink else "aw"
                sink._signal_widths = {**sink._signal_widths, name + "len": 4, name + "lock": 2}
        for port in range(4):
            if not hasattr(dut, f"M{port:02}_AXI_awvalid"):
                break
            share = {"mem": self.rams[0].mem} if self.rams else {"size": MEMORY}
            bus = AxiBus.from_prefix(dut, f"M{port:02}_AXI")
            self.rams.append(AxiRam(bus, dut.clk, dut.resetn, reset_active_level=False, **share))
        self.memory = self.rams[0]
        self.seen = {"bursts": 0, "beats": 0, "paused": 0}

    async def reset(self):
        self.dut.resetn.value = 0
        for _ in range(8):
            await RisingEdge(self.dut.clk)
        self.dut.resetn.value = 1
        await RisingEdge(self.dut.clk)

    def pause(self, mean):
        channels = [self.regs.write_if.aw_channel, self.regs.write_if.w_channel, self.regs.write_if.b_channel,
                    self.regs.read_if.ar_channel, self.regs.read_if.r_channel]
        for ram in self.rams:
            channels += [ram.write_if.aw_channel, ram.write_if.w_channel, ram.write_if.b_channel,
                         ram.read_if.ar_channel, ram.read_if.r_channel]
        for channel in channels:
            channel.set_pause_generator(pauses(random.Random(self.rng.random()), mean))

    async def watch(self, port):
        """What the library takes on trust."""
        handles = {}

        def signal(name):
            if name not in handles:
                handles[name] = getattr(self.dut, f"M{port:02}_AXI_{name}")
            return handles[name]

        size = len(signal("wstrb")).bit_length() - 1
        axi3 = hasattr(self.dut, f"M{port:02}_AXI_wid")
        waiting = {}  # by channel: payload that was offered and not accepted
        channels = {
            "aw": ["awid", "awaddr", "awlen"], "ar": ["arid", "araddr", "arlen"], "w": ["wdata", "wstrb", "wlast"],
        }
        # IDs of announced bursts that lack data: data may be accepted before their address is, but not before the address is on
        # the bus
        owed, noted = [], False
        edge, settled = RisingEdge(self.dut.clk), ReadOnly()
        while True:
            await edge
            await settled
            for channel, names in channels.items():
                valid, ready = int(signal(channel + "valid").value), int(signal(channel + "ready").value)
                payload = tuple(int(signal(name).value) for name in names) if valid else None
                if channel in waiting:
                    assert payload == waiting[channel], f"port {port}: {channel} changes while it waits"
                waiting.pop(channel, None)
                if not valid:
                    continue
                if channel == "aw":
                    if not noted:
                        owed.append(payload[0])
                    noted = not ready
                if not ready:
                    waiting[channel] = payload
                    self.seen["paused"] += 1
                    continue
                if channel == "w":
                    self.seen["beats"] += 1
                    if axi3:
                        assert owed, f"port {port}: data before their address"
                        assert int(signal("wid").value) == owed[0], f"port {port}: WID is not its address' ID"
                        if payload[2]:
                            owed.pop(0)
                    continue
                self.seen["bursts"] += 1
                _, address, length = payload
                assert int(signal(channel + "size").value) == size and int(signal(channel + "burst").value) == 1
                assert int(signal(channel + "cache").value) == 2 and int(signal(channel + "prot").value) == 0
                assert length < 16, f"port {port}: a burst of {length + 1} beats"
                assert address % (1 << size) == 0 and address // 4096 == (address + ((length + 1) << size) - 1) // 4096, \
                    f"port {port}: a burst of {length + 1} beats at {address:#x}"

    async def count(self):
        while True:
            await RisingEdge(self.dut.clk)
            self.cycles += 1

    async def read(self, offset):
        answer = await self.regs.read(offset, 4)
        assert answer.resp == AxiResp.OKAY, f"read of {offset:#05x}: {answer.resp!r}"
        return int.from_bytes(answer.data, "little")

    async def write(self, offset, value, refused=False):
        answer = await self.regs.write(offset, value.to_bytes(4, "little"))
        quiet = os.environ["QUIET"] == "1"
        want = AxiResp.SLVERR if refused and not quiet else AxiResp.OKAY
        assert answer.resp == want, f"write of {value:#x} to {offset:#05x}: {answer.resp!r}"
        marked = await self.read(ACCESS)
        assert marked == refused, f"write of {value:#x} to {offset:#05x}: ACCESS is {marked}"
        if refused:
            await self.regs.write(ACCESS, (1).to_bytes(4, "little"))

    async def run(self, cycles):
        """Until the interrupt; pauses make a start longer than it takes otherwise."""
        for _ in range(min(8 * cycles, LIMIT)):
            if int(self.dut.irq.value):
                return True
            await RisingEdge(self.dut.clk)
        return False


def records(text):
    assert text[:8] == b"SLVEC001"
    at = 8
    while at < len(text):
        kind, length = struct.unpack_from("<II", text, at)
        yield at, kind, text[at + 8:at + 8 + length]
        at += 8 + length


async def play(bench, path):
    runs = 0
    for at, kind, payload in records(path.read_bytes()):
        where = f"{path.name} at {at}"
        if kind == 1:
            (address,) = struct.unpack_from("<Q", payload)
            bench.memory.write(address, payload[8:])
        elif kind == 2:
            await bench.write(*struct.unpack("<II", payload))
        elif kind == 3:
            offset, mask, value = struct.unpack("<III", payload)
            got = await bench.read(offset)
            assert (got ^ value) & mask == 0, f"{where}: register {offset:#05x} is {got:#x}, expected {value:#x}"
        elif kind == 4:
            cycles, irq, _ = struct.unpack("<QII", payload)
            if irq:
                assert await bench.run(cycles), f"{where}: no interrupt"
                runs += 1
            else:
                for _ in range(cycles):
                    assert not int(bench.dut.irq.value), f"{where}: an interrupt"
                    await RisingEdge(bench.dut.clk)
        elif kind == 5:
            (address,) = struct.unpack_from("<Q", payload)
            got = bench.memory.read(address, len(payload) - 8)
            assert got == payload[8:], f"{where}: memory at {address:#x} differs"
        elif kind == 6:
            json.loads(payload)
        elif kind == 8:
            await bench.write(*struct.unpack("<II", payload), refused=True)
        else:
            assert kind == 7, f"{where}: kind {kind}"
    return runs


@cocotb.test()
async def vectors(dut):
    rng = random.Random(cocotb.RANDOM_SEED)
    cocotb.start_soon(Clock(dut.clk, 10, "ns").start())
    bench = Bench(dut, rng)
    await bench.reset()
    for port in range(len(bench.rams)):
        cocotb.start_soon(bench.watch(port))
    cocotb.start_soon(bench.count())
    runs = 0
    paths = sorted(pathlib.Path(os.environ["VECTORS"]).glob("*.vec"))
    for i, path in enumerate(paths):
        if i or len(paths) == 1:  # the first of several files is played without pauses
            bench.pause(rng.choice((20, 50, 80)))
        runs += await with_timeout(play(bench, path), 60, "ms")
    assert runs > 0 and bench.seen["paused"] > 100 and bench.seen["bursts"] > 100, f"{runs} starts, {bench.seen}"

    # a register that does not exist, TIME, and an address that is too wide for the ports
    await bench.write(0xFF0, 0, refused=True)
    lo, at = await bench.read(TIME_LO), bench.cycles
    hi = await bench.read(TIME_HI)
    later, then = await bench.read(TIME_LO), bench.cycles
    assert hi == 0 and abs((later - lo) - (then - at)) <= 64, f"TIME went on {later - lo} in {then - at} cycles"
    if len(dut.M00_AXI_awaddr) == 32:
        await bench.write(0x064, 1, refused=True)  # DESC_BASE_HI
    dut._log.info("cocotb: %d starts on %d ports, %s, %d cycles", runs, len(bench.rams), bench.seen, bench.cycles)
