package lua

import (
	"fmt"
	"math"
	"strings"

	"redstalk/storage/redis/schema"
	"redstalk/tube"
	"redstalk/tube/field"
)

// What Lua knows of jobs with tags, and of the rules of tubes: see data.

// metadata is the layout of a metadata block, see package schema:
//
//   - MAX_GROWTH is an upper limit of its size, if it has no headers and no past. CHANGING is the size of
//     its last part, which always has the same size.
//   - unpack_metadata(text) returns a table of the fields of a block; nil if it is broken. text
//     is the end of the record, at least as long as the block. read_metadata(key) does that for
//     a record in Redis.
//   - pack_changing(f) returns the last CHANGING bytes. f.length is the size of the block
//     without its length field.
//   - REASON.size(f) returns how many bytes the reason, with the past, has in the block, before the last
//     CHANGING; REASON.pack(f) returns these bytes; REASON.needs(f) returns the capacity that it needs at least.
//
// The fields of the table are key (empty if there is none), void; of RULES those that are set, durations in ms;
// group (nil), occurrence (nil, or its bytes in the block), from_tube
// (empty), from_id, batch (nil), after (nil; after_void if it has ended) and after_all (1 or 0), parked (a tube.Parked), reports (whether the job has a checkpoint or a progress), failures_before, deliveries_before, lease, and length;
// flags; still (false, or the still more flags and their fields, bytes in the block); headers (nil, or their bytes in the block), capacity (0, or that of the reason), and with
// that reason and failed_ms; past (” if there is none); expires (nil, or ms). from_at is how many bytes of the block come before
// from_tube, more_at how many before the fields that HAS_MORE announces, and more_end how many up to
// their end; rules_end is nil, or how many come up to the end of the rules among them, and more_rules has their flags;
// expires_at is nil, or how many come before expires.
func metadata() string {
	return fmt.Sprintf("local CHANGING, MAX_GROWTH, KEY_VOID = %d, %d, %d\n", schema.ChangingMetadata, schema.MaxGrowth, schema.KeyVoid) +
		fmt.Sprintf("local REASON = { TTR = '%s', HEAD = %d, STEP = %d, MAX_ATTEMPTS = %d, MAX_ATTEMPT = %d, FAILED = { %s} }\n",
			tube.ReasonTTR, schema.ReasonHead, schema.ReasonStep, tube.MaxAttempts, tube.MaxAttemptReason, failed()) +
		fmt.Sprintf("local HAS_HEADERS, HAS_REASON = %d, %d\n", schema.HasHeaders, schema.HasReason) +
		fmt.Sprintf("local HAS_FROM, HAS_MORE, HAS_EXPIRES, HAS_GROUP = %d, %d, %d, %d\n", schema.HasFrom, schema.HasMore, schema.HasExpires, schema.HasGroup) +
		fmt.Sprintf("local HAS_OCCURRENCE, HAS_BATCH, HAS_AFTER, AFTER_VOID = %d, %d, %d, %d\n", schema.HasOccurrence, schema.HasBatch, schema.HasAfter, schema.AfterVoid) +
		fmt.Sprintf("local HAS_STILL, HAS_REPORTS = %d, %d\n", schema.HasStill, schema.HasReports) +
		readRules() + metadataText
}

// failed returns, by the name of an arrow, how a delivery fails that ends along it, a tube.Failed; nothing for the others.
func failed() string {
	var s strings.Builder
	for _, a := range tube.Arrows() {
		if how := a.Move.Failed(); how != tube.NotFailed {
			fmt.Fprintf(&s, "['%v %v'] = %d, ", a.Move, schema.StateWord(a.From), how)
		}
	}
	return s.String()
}

// readRules defines RULES, the names of the rules in a block, and three functions that read those which flags announce
// into f: of the flags, of the flags after HAS_MORE, and of the still more flags. They return where the next field is.
func readRules() string {
	var names strings.Builder
	var reads [3]strings.Builder // by the byte of flags
	for _, f := range schema.RulesRows {
		flag, to := f.Stored.Flag, &reads[0]
		for which := 1; flag > math.MaxUint8; which++ {
			flag, to = flag>>8, &reads[which]
		}
		fmt.Fprintf(&names, "'%s', ", f.JSON())
		fmt.Fprintf(to, "  if flags %% %d >= %d then %s end\n", 2*flag, flag, readRule(f))
	}
	const function = "local function %s(f, flags, text, at)\n%s  return at\nend\n"
	return fmt.Sprintf("local RULES = { %s}\n", &names) + fmt.Sprintf(function, "read_rules", &reads[0]) +
		fmt.Sprintf(function, "read_more_rules", &reads[1]) + fmt.Sprintf(function, "read_still_more_rules", &reads[2])
}

// readRule returns the statement that reads a rule.
func readRule(f *field.Field[tube.Rules]) string {
	const list = "local n; n, at = struct.unpack('B', text, at); f.%[1]s = {}; for k = 1, n do f.%[1]s[k], at = struct.unpack('>I8', text, at) end"
	switch f.Kind {
	case field.Retry:
		return fmt.Sprintf(list, f.JSON())
	case field.Text:
		return fmt.Sprintf("f.%s, at = struct.unpack('Bc0', text, at)", f.JSON())
	}
	return fmt.Sprintf("f.%s, at = struct.unpack('>I%d', text, at)", f.JSON(), f.Stored.Width)
}

const metadataText = `
local function read_more(f, text, at, start)
  local flags
  local function has(flag) return flags % (2 * flag) >= flag end
  flags, at = struct.unpack('B', text, at)
  at = read_more_rules(f, flags, text, at)
  f.more_rules, f.rules_end = flags % HAS_EXPIRES, at - start
  if has(HAS_GROUP) then f.group, at = struct.unpack('Bc0', text, at) end
  if has(HAS_OCCURRENCE) then
    local from = at
    at = at + 1 + string.byte(text, at) + 8
    f.occurrence = string.sub(text, from, at - 1)
  end
  if has(HAS_BATCH) then f.batch, at = struct.unpack('Bc0', text, at) end
  if has(HAS_AFTER) then f.after, f.after_all, at = struct.unpack('Bc0B', text, at) end
  if has(HAS_EXPIRES) then
    f.expires_at = at - start
    f.expires, at = struct.unpack('>I8', text, at)
    if f.expires == 0 then f.expires = nil end
  end
  return at
end
local function read_optional(f, text, at, flags, start)
  local function has(flag) return flags % (2 * flag) >= flag end
  at = read_rules(f, flags, text, at)
  f.from_at = at - start
  if has(HAS_FROM) then f.from_tube, f.from_id, at = struct.unpack('>Bc0I8', text, at) end
  f.more_at = at - start
  if has(HAS_MORE) then at = read_more(f, text, at, start) end
  f.more_end = at - start
  if has(HAS_HEADERS) then
    local from = at
    at = select(2, struct.unpack('>I2c0', text, at))
    f.headers = string.sub(text, from, at - 1)
  end
  if f.still then
    local from, still = at
    still, at = struct.unpack('B', text, at)
    at = read_still_more_rules(f, still, text, at)
    f.still = string.sub(text, from, at - 1)
  end
  if has(HAS_REASON) then
    local upto = at + REASON.HEAD - 1 + struct.unpack('>I2', text, at)
    f.capacity, f.failed_ms, f.reason, at = struct.unpack('>I2I8I2c0', text, at)
    if at < upto then f.past = struct.unpack('>I2c0', text, at) end
  end
end
local function unpack_whole(text)
  local n = #text >= CHANGING + 2 and struct.unpack('>I2', text, #text - 1) or 0
  local at = #text - 1 - n
  if n < CHANGING or at < 1 then return nil end
  local f = { from_tube = '', from_id = 0, length = n, capacity = 0, past = '' }
  local start = at
  local status
  status, f.failures_before, f.deliveries_before, f.lease = struct.unpack('>BI4I4I8', text, #text - CHANGING + 1)
  f.void, f.parked = status >= KEY_VOID, status % KEY_VOID
  f.after_void, f.parked = f.parked >= AFTER_VOID, f.parked % AFTER_VOID
  f.still, f.parked = f.parked >= HAS_STILL, f.parked % HAS_STILL
  f.reports, f.parked = f.parked >= HAS_REPORTS, f.parked % HAS_REPORTS
  f.flags, f.key, at = struct.unpack('BBc0', text, at)
  read_optional(f, text, at, f.flags, start)
  if f.void then f.key = '' end
  if f.after_void then f.after = nil end
  return f
end
local function unpack_metadata(text)
  local ok, f = pcall(unpack_whole, text)
  return ok and f or nil
end
local function read_metadata(key)
  local text = redis.call('GETRANGE', key, string.format('%d', -MAX_GROWTH), '-1')
  local size = #text >= 2 and 2 + struct.unpack('>I2', text, #text - 1) or 0
  if size > #text then text = redis.call('GETRANGE', key, string.format('%d', -size), '-1') end
  return unpack_metadata(text)
end
local function pack_changing(f)
  local status = f.parked + (f.void and KEY_VOID or 0) + (f.after_void and AFTER_VOID or 0) + (f.still and HAS_STILL or 0)
  if f.reports then status = status + HAS_REPORTS end
  return struct.pack('>BI4I4I8I2', status, f.failures_before, f.deliveries_before, f.lease, f.length)
end
function REASON.size(f)
  return f.capacity > 0 and REASON.HEAD + f.capacity or 0
end
function REASON.needs(f)
  return 2 + #f.reason + (f.past ~= '' and 2 + #f.past or 0)
end
function REASON.pack(f)
  if f.capacity == 0 then return '' end
  local text = struct.pack('>I2I8I2', f.capacity, f.failed_ms, #f.reason) .. f.reason
  if f.past ~= '' then text = text .. struct.pack('>I2', #f.past) .. f.past end
  return text .. string.rep('\0', f.capacity - REASON.needs(f))
end
`

// after is tube.Rules.After, for rules in a table like that of unpack_metadata, and an
// outcome of ARROW_ENDS. TestAfterInLua compares the two.
//
//   - after(rules, id, outcome, failures, deliveries) returns why the job is parked, NOT_PARKED if it
//     is not, and for how many ms it is delayed.
func after() string {
	return fmt.Sprintf("local FAILURE, REFUSED, NOT_PARKED, PARKED_RETRIES, PARKED_DELIVERIES, PARKED_REFUSED = %d, %d, %d, %d, %d, %d\n",
		tube.Failure, tube.Refused, tube.NotParked, tube.ParkedRetries, tube.ParkedDeliveries, tube.ParkedRefused) +
		fmt.Sprintf("local PARKED_EXPIRED, EXPIRE_PARK, JITTER_OF_DOUBLED = %d, %d, %d\n", tube.ParkedExpired, tube.ExpirePark, tube.JitterOfDoubled) + `
local function spread(wait, percent, id, failures)
  local most = math.floor(wait * percent / 100)
  if most == 0 then return wait end
  local hash = (id % 2147483647 * 48271 + failures * 69621 + 1) % 2147483647
  hash = hash * 16807 % 2147483647
  return wait + math.floor(hash % 8192 * (2 * most + 1) / 8192) - most
end
local function after(rules, id, outcome, failures, deliveries)
  local wait, doubled = 0, rules.doubled
  if outcome == REFUSED then return PARKED_REFUSED, 0 end
  if outcome == FAILURE and rules.retry then
    if failures > (doubled or #rules.retry) then return PARKED_RETRIES, 0 end
    local failure = math.max(failures, 1)
    wait = doubled and math.min(rules.retry[1] * 2 ^ (failure - 1), rules.retry[2]) or rules.retry[failure]
    wait = spread(wait, rules.jitter or doubled and JITTER_OF_DOUBLED or 0, id, failures)
  end
  if rules.max > 0 and deliveries >= rules.max then return PARKED_DELIVERIES, 0 end
  return NOT_PARKED, wait
end
`
}

// placement is partitionOf, and the constants of puts with tags.
func placement() string {
	return fmt.Sprintf("local PUT_NEW, PUT_TOMBSTONE, PUT_DUPLICATE, PUT_REFUSED, PUT_SEALED = %d, %d, %d, %d, %d\n",
		tube.PutNew, tube.PutExisting, tube.PutDuplicate, tube.PutRefused, tube.PutSealed) +
		fmt.Sprintf("local REPLACE, FAIL, RANGE_FROM, FOLLOW = %d, %d, %d, %d\n", tube.Replace, tube.Fail, schema.RangeFrom, tube.Follow) + `
local function partition_of(name)
  if partitions == 1 then return 0 end
  local hash = 2166136261
  for k = 1, #name do
    local low = hash % 256
    hash = hash - low + bit.bxor(low, string.byte(name, k))
    hash = (hash % 256 * 16777216 + hash * 403) % 4294967296
  end
  return hash % partitions
end
`
}

// lease defines only_lease(token), which returns the metadata block of a job that has had no metadata before
// a lease.
func lease() string {
	block := schema.AppendMetadata(nil, &tube.Metadata{})
	at := len(block) - schema.LeaseToEnd
	return fmt.Sprintf("local function only_lease(token) return '%s' .. struct.pack('>I8', token) .. '%s' end\n", escaped(block[:at]), escaped(block[at+8:]))
}

// escaped returns bytes as they are written in a string of Lua.
func escaped(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		fmt.Fprintf(&s, "\\%03d", c)
	}
	return s.String()
}
