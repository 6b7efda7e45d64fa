package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// The first instance of this version that opens a namespace of the layout before it upgrades
// it: it counts the bytes of all bodies, by tube, which layout 7 has in tube:TUBE. All else is
// the same, or new. No older instance may be alive, and none can begin meanwhile: the version
// is marked first. If the upgrade is interrupted the next instance begins it anew.

const (
	// olderVersion is the layout that can be upgraded, and upgrading what its namespace
	// has for a version meanwhile.
	olderVersion = "6"
	upgrading    = "6 to 7"

	// upgradeLock is how long another instance waits for one that upgrades and says
	// nothing.
	upgradeLock = 10 * time.Second
)

// upgradeScript begins, goes on with and ends an upgrade.
//
// KEYS[1]  the key layout, KEYS[2] the lock
// ARGV     name of the instance, the version that must be there, the new one, ms of the lock;
// 0 to let go of it
//
// Reply: 1; 0 if another instance upgrades; -1 if there is another version.
var upgradeScript = goredis.NewScript(`
local has = redis.call('GET', KEYS[2])
if has and has ~= ARGV[1] then return 0 end
local version = redis.call('HGET', KEYS[1], 'version')
if version ~= ARGV[2] and version ~= ARGV[3] then return -1 end
redis.call('DEL', KEYS[1] .. ':none')
redis.call('HSET', KEYS[1], 'version', ARGV[3])
if ARGV[4] == '0' then
  redis.call('DEL', KEYS[2])
else
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[4])
end
return 1
`)

// upgrade is one upgrade under way.
type upgrade struct {
	link    *link
	options *Options
	node    *goredis.Client // of partition 0
	name    string
	log     *slog.Logger
	renewed time.Time
	bytes   []map[string]int // of the bodies, by partition and tube
}

// upgradeIfOlder upgrades the namespace if it has the layout before this one.
func upgradeIfOlder(ctx context.Context, l *link, o *Options, node *goredis.Client) error {
	var its instance
	its.rename()
	u := &upgrade{link: l, options: o, node: node, name: its.name(), log: o.Log}
	for {
		version, err := node.HGet(ctx, u.key("layout"), "version").Result()
		if err == goredis.Nil || err == nil && version != olderVersion && version != upgrading {
			return nil
		}
		if err != nil {
			return err
		}
		if err := u.partitions(ctx); err != nil {
			return err
		}
		done, err := u.run(ctx, version)
		if done || err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond) // another instance upgrades it
	}
}

func (u *upgrade) key(name string) string { return keyPrefix(u.options.Namespace, 0) + name }

// partitions checks that the namespace has as many as were asked for.
func (u *upgrade) partitions(ctx context.Context) error {
	text, err := u.node.HGet(ctx, u.key("layout"), "partitions").Result()
	if err != nil {
		return err
	}
	if text != strconv.Itoa(u.options.Partitions) {
		return fmt.Errorf("%w: the namespace %q has partitions %s, and this redstalk needs %d: choose another namespace, or the same number for all instances", errLayout, u.options.Namespace, text, u.options.Partitions)
	}
	return nil
}

// step marks the version and takes, prolongs or releases the lock. It returns false if
// another instance has that.
func (u *upgrade) step(ctx context.Context, from, to string, lock time.Duration) (bool, error) {
	n, err := upgradeScript.Run(ctx, u.node, []string{u.key("layout"), u.key("upgrade")}, u.name, from, to, lock.Milliseconds()).Int()
	if err == nil && n < 0 {
		err = fmt.Errorf("%w: the layout of the namespace %q was changed during an upgrade", errLayout, u.options.Namespace)
	}
	u.renewed = time.Now()
	return n == 1, err
}

// begin begins an upgrade; false if another instance upgrades, or has done so since the version
// was read: then that one serves already.
func (u *upgrade) begin(ctx context.Context, version string) (mine bool, err error) {
	if err = u.alone(ctx); err == nil {
		mine, err = u.step(ctx, version, upgrading, upgradeLock)
	}
	if errors.Is(err, errLayout) {
		now, readErr := u.node.HGet(ctx, u.key("layout"), "version").Result()
		if readErr == nil && now != version && now != upgrading {
			return false, nil
		}
	}
	return mine, err
}

// run upgrades the namespace; false if another instance does.
func (u *upgrade) run(ctx context.Context, version string) (done bool, err error) {
	if mine, err := u.begin(ctx, version); !mine || err != nil {
		return false, err
	}
	if err := u.alone(ctx); err != nil { // one may have come just before the mark
		u.step(ctx, upgrading, olderVersion, 0)
		return false, err
	}
	u.log.Info("upgrading the namespace", "namespace", u.options.Namespace, "to", layoutVersion)
	if err := u.count(ctx); err != nil {
		return false, err
	}
	if err := u.write(ctx); err != nil {
		return false, err
	}
	return u.step(ctx, upgrading, strconv.Itoa(layoutVersion), 0)
}

// alone returns an error if an instance lives.
func (u *upgrade) alone(ctx context.Context) error {
	alive, err := anyAlive(ctx, u.link, u.options, u.options.Partitions)
	if err == nil && alive {
		err = fmt.Errorf("%w: the namespace %q has version %s, and an older redstalk serves from it: stop it, and this one upgrades the namespace", errLayout, u.options.Namespace, olderVersion)
	}
	return err
}

// count counts the bytes of all bodies.
func (u *upgrade) count(ctx context.Context) error {
	u.bytes = make([]map[string]int, u.options.Partitions)
	seen := make(map[*goredis.Client]bool)
	for number := range u.options.Partitions {
		u.bytes[number] = make(map[string]int)
		node, err := u.link.node(ctx, keyPrefix(u.options.Namespace, number))
		if err != nil {
			return err
		}
		seen[node] = true
	}
	for node := range seen {
		if err := u.countNode(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// countNode counts those on one server. SCAN may return a key twice, so these are looked at
// once.
func (u *upgrade) countNode(ctx context.Context, node *goredis.Client) error {
	counted := make(map[uint64]bool)
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		keys, next, err := node.Scan(ctx, cursor, globEscaper.Replace(u.options.Namespace)+":{*}:*", 1000).Result()
		if err != nil {
			return err
		}
		if err := u.countKeys(ctx, node, keys, counted); err != nil {
			return err
		}
		if time.Since(u.renewed) > upgradeLock/4 {
			if mine, err := u.step(ctx, upgrading, upgrading, upgradeLock); !mine || err != nil {
				return fmt.Errorf("%w: another instance upgrades the namespace %q: %v", errLayout, u.options.Namespace, err)
			}
		}
		cursor = next
	}
	return nil
}

// numberOf returns the partition of the key of a job; false if it is none.
func (u *upgrade) numberOf(key string) (int, bool) {
	rest, is := strings.CutPrefix(key, u.options.Namespace+":{")
	digits, id, whole := strings.Cut(rest, "}:")
	number, err := strconv.Atoi(digits)
	return number, is && whole && err == nil && isID(id) && number < u.options.Partitions
}

func (u *upgrade) countKeys(ctx context.Context, node *goredis.Client, keys []string, counted map[uint64]bool) error {
	pipe := node.Pipeline()
	var numbers []int
	var lengths []*goredis.IntCmd
	var names []*goredis.StringCmd
	for _, key := range keys {
		number, is := u.numberOf(key)
		id, err := strconv.ParseUint(key[max(0, len(key)-idLen):], 10, 64)
		if !is || err != nil || counted[id] {
			continue
		}
		counted[id] = true
		numbers, lengths = append(numbers, number), append(lengths, pipe.StrLen(ctx, key))
		names = append(names, pipe.GetRange(ctx, key, 0, int64(nameAt+longestName-1)))
	}
	if len(numbers) == 0 {
		return nil
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	for i, number := range numbers {
		if its := record(names[i].Val()); its.valid() {
			u.bytes[number][its.tube()] += int(lengths[i].Val()) - its.bodyAt()
		}
	}
	return nil
}

// write writes what was counted.
func (u *upgrade) write(ctx context.Context) error {
	for number, tubes := range u.bytes {
		prefix := keyPrefix(u.options.Namespace, number)
		node, err := u.link.node(ctx, prefix)
		if err != nil {
			return err
		}
		pipe := node.Pipeline()
		for name, bytes := range tubes {
			writeThoughFull(ctx, pipe, prefix, "HSET", prefix+"tube:"+name, "bytes", bytes)
			if pipe.Len() < 1000 {
				continue
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}
