package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// link is the connection of this instance to Redis, in any deployment.
//
// Scripts are never sent through a cluster's client but through that of the node which has the
// partition. The cluster's client would follow an ASK, which means that the keys of the
// partition are being migrated, and neither side has all of them. A script must run where they
// all are, so it waits until they are together.
type link struct {
	address *address
	one     *goredis.Client        // of the single server, or of the primary that sentinels name
	cluster *goredis.ClusterClient // nil if Redis is not a cluster

	servers *servers // processes that its connections have met

	mu    sync.Mutex
	calls map[*goredis.Client]bool // clients of the socketDialers
}

// connections is how many connections an instance can need to one server: each partition has
// one that waits for wake-ups, makes one call at a time, and can send a heartbeat beside it.
func connections(o Options) int { return 3*o.Partitions + 8 }

// newLink prepares to connect.
func newLink(a *address, o Options) *link {
	l := &link{
		address: a, calls: make(map[*goredis.Client]bool),
		servers: &servers{cluster: a.kind == cluster, runIDs: make(map[string]string)},
	}
	a.options.OnConnect = l.servers.greet
	if a.kind != single || o.Partitions > 1 {
		a.options.PoolSize = max(a.options.PoolSize, connections(o))
	}
	a.options.Dialer = dialer(a.options)
	switch a.kind {
	case single:
		l.one = goredis.NewClient(a.options)
		retireOnRefusal(l.one)
	case sentinels:
		l.one = goredis.NewFailoverClient(a.failover())
		retireOnRefusal(l.one)
	case cluster:
		l.cluster = goredis.NewClusterClient(a.cluster())
		l.cluster.OnNewNode(retireOnRefusal)
	}
	return l
}

func (a *address) failover() *goredis.FailoverOptions {
	o := a.options
	f := &goredis.FailoverOptions{
		MasterName: a.master, SentinelAddrs: a.hosts, ClientName: o.ClientName,
		Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig,
		Protocol: o.Protocol, MaxRetries: o.MaxRetries, PoolSize: o.PoolSize,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		DialerRetries: o.DialerRetries, DisableIdentity: true, Dialer: o.Dialer, OnConnect: o.OnConnect,
	}
	if a.known {
		f.SentinelUsername, f.SentinelPassword = o.Username, o.Password
	}
	return f
}

func (a *address) cluster() *goredis.ClusterOptions {
	o := a.options
	return &goredis.ClusterOptions{
		Addrs: a.hosts, ClientName: o.ClientName,
		Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
		Protocol: o.Protocol, MaxRetries: o.MaxRetries, MaxRedirects: -1, PoolSize: o.PoolSize,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		DialerRetries: o.DialerRetries, DisableIdentity: true, Dialer: o.Dialer, OnConnect: o.OnConnect,
		MaintNotificationsConfig: o.MaintNotificationsConfig,
	}
}

// errNoNode: the server of a partition is unknown, so nothing was sent.
var errNoNode = errors.New("no node of the cluster says who has the partition")

// node returns a client of the server that has the keys with this prefix, as far as known.
func (l *link) node(ctx context.Context, prefix string) (*goredis.Client, error) {
	if l.cluster == nil {
		return l.one, nil
	}
	node, err := l.cluster.MasterForKey(ctx, prefix)
	switch {
	case errors.Is(err, goredis.ErrClosed):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNoNode, err)
	}
	return node, nil
}

// newSocketDialer returns a dialer of connections for calls to the server of a client. It ends
// with the link, or by closeSocketDialer.
func (l *link) newSocketDialer(node *goredis.Client) *socketDialer {
	s := &socketDialer{servers: l.servers}
	if l.address.kind == sentinels {
		options := l.address.failover()
		options.OnConnect = s.noteAuthenticated
		s.client = goredis.NewFailoverClient(options)
	} else {
		options := *node.Options()
		options.OnConnect = s.noteAuthenticated
		s.client = goredis.NewClient(&options)
	}
	s.client.AddHook(dialHook{s})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[s.client] = true
	return s
}

func (l *link) closeSocketDialer(s *socketDialer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, s.client)
	s.client.Close()
}

// reloadTopology makes the client read again which node has what, after a call has failed.
func (l *link) reloadTopology() {
	if l.cluster != nil {
		l.cluster.ReloadState(context.Background())
	}
}

// each calls do with every server that has keys, or can have them after a failover, and returns
// the first error. The candidates of sentinels are the replicas of the primary.
func (l *link) each(ctx context.Context, do func(context.Context, *goredis.Client) error) error {
	switch l.address.kind {
	case cluster:
		return l.cluster.ForEachShard(ctx, do)
	case sentinels:
		if err := l.eachReplica(ctx, do); err != nil {
			return err
		}
	}
	return do(ctx, l.one)
}

// eachReplica calls do with the replicas of the primary.
func (l *link) eachReplica(ctx context.Context, do func(context.Context, *goredis.Client) error) error {
	info, err := l.one.Info(ctx, "replication").Result()
	if err != nil {
		return nil // the primary itself reports the same
	}
	for _, match := range replicaLine.FindAllStringSubmatch(info, -1) {
		options := *l.address.options
		options.Addr = net.JoinHostPort(match[1], match[2])
		options.OnConnect = nil
		node := goredis.NewClient(&options)
		err := do(ctx, node)
		node.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

var replicaLine = regexp.MustCompile(`(?m)^slave\d+:ip=([^,]+),port=(\d+),`)

// Close ends all connections.
func (l *link) Close() error {
	var c io.Closer = l.one
	if l.cluster != nil {
		c = l.cluster
	}
	err := c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for client := range l.calls {
		err = cmp.Or(err, client.Close())
	}
	return err
}
