package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of processor time in /proc/PID/stat: USER_HZ is 100 wherever
// Go runs.
const tick = 10 * time.Millisecond

// cpuOf reads the processor time, user and system, of a process, and its name.
func cpuOf(pid int) (time.Duration, string, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", fmt.Errorf("reading the processor time of process %d: %w", pid, err)
	}
	return parseStat(raw)
}

// parseStat reads a /proc/PID/stat. The name is in parentheses and can contain
// any byte, so fields are counted from the last closing one.
func parseStat(raw []byte) (time.Duration, string, error) {
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 0 || end < open {
		return 0, "", fmt.Errorf("reading a process's stat: no name in %.40q", raw)
	}
	fields := strings.Fields(string(raw[end+1:]))
	const utime, stime = 14 - 3, 15 - 3 // the state, field 3, is the first left
	if len(fields) <= stime {
		return 0, "", fmt.Errorf("reading a process's stat: only %d fields", len(fields)+2)
	}
	var ticks int64
	for _, f := range fields[utime : stime+1] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, "", fmt.Errorf("reading a process's stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, string(raw[open+1 : end]), nil
}

// rssOf reads the resident memory of a process, in bytes.
func rssOf(pid int) (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of process %d: %w", pid, err)
	}
	_, rest, found := strings.Cut(string(raw), "VmRSS:")
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		return 0, fmt.Errorf("reading the memory of process %d: no VmRSS", pid)
	}
	kb, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the memory of process %d: %w", pid, err)
	}
	return kb << 10, nil
}

// cpuOfSelf is the processor time this process has used.
func cpuOfSelf() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A procUse is the resource use of a process during a load.
type procUse struct {
	PID   int     `json:"pid"` // 0 for the generator itself
	Name  string  `json:"name"`
	CPU   float64 `json:"cpu_s"`
	PerOp float64 `json:"cpu_us_per_op"`
	RSS   int64   `json:"rss_bytes"`
}

// A usageMeter measures processes between its start and stop. The generator itself
// is always the last of them.
type usageMeter struct {
	pids   []int
	before []time.Duration
	self   time.Duration
}

func newUsageMeter(pids []int) *usageMeter {
	return &usageMeter{pids: pids, before: make([]time.Duration, len(pids))}
}

func (w *usageMeter) start() error {
	for i, pid := range w.pids {
		var err error
		if w.before[i], _, err = cpuOf(pid); err != nil {
			return err
		}
	}
	w.self = cpuOfSelf()
	return nil
}

// stop returns the use of each process; PerOp is left to the caller, who knows
// the operations.
func (w *usageMeter) stop() ([]procUse, error) {
	self := cpuOfSelf() - w.self
	var uses []procUse
	for i, pid := range w.pids {
		after, name, err := cpuOf(pid)
		if err != nil {
			return nil, err
		}
		rss, err := rssOf(pid)
		if err != nil {
			return nil, err
		}
		uses = append(uses, procUse{PID: pid, Name: name, CPU: (after - w.before[i]).Seconds(), RSS: rss})
	}
	rss, _ := rssOf(os.Getpid()) // zero where there is no /proc
	return append(uses, procUse{Name: "generator", CPU: self.Seconds(), RSS: rss}), nil
}
