package conn

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

// Pool is the connections of a process to Redis, in any deployment.
//
// Scripts are never sent through a cluster's client but through that of the node which has the
// partition. The cluster's client would follow an ASK, which means that the keys of the
// partition are being migrated, and neither side has all of them. A script must run where they
// all are, so it waits until they are together.
type Pool struct {
	address *Address
	one     *goredis.Client        // of the single server, or of the primary that sentinels name
	cluster *goredis.ClusterClient // nil if Redis is not a cluster

	servers *servers // processes that its connections have met

	mu    sync.Mutex
	calls map[*goredis.Client]bool // clients of the socketDialers
}

// NewPool prepares to connect to an address, which belongs to the pool from then on. It allows
// at least that many connections to one server; 0: the default of go-redis.
func NewPool(a *Address, connections int) *Pool {
	p := &Pool{
		address: a, calls: make(map[*goredis.Client]bool),
		servers: &servers{cluster: a.kind == Cluster, runIDs: make(map[string]string)},
	}
	a.options.OnConnect = p.servers.greet
	if connections > 0 {
		a.options.PoolSize = max(a.options.PoolSize, connections)
	}
	a.options.Dialer = dialer(a)
	switch a.kind {
	case Single:
		p.one = goredis.NewClient(a.options)
		retireOnRefusal(p.one)
	case Sentinels:
		p.one = goredis.NewFailoverClient(a.failover())
		retireOnRefusal(p.one)
	case Cluster:
		p.cluster = goredis.NewClusterClient(a.cluster())
		p.cluster.OnNewNode(retireOnRefusal)
	}
	return p
}

func (a *Address) failover() *goredis.FailoverOptions {
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

func (a *Address) cluster() *goredis.ClusterOptions {
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

// Node returns the server that has the keys with this prefix, as far as known.
func (p *Pool) Node(ctx context.Context, prefix string) (Node, error) {
	if p.cluster == nil {
		return Node{p.one}, nil
	}
	client, err := p.cluster.MasterForKey(ctx, prefix)
	switch {
	case errors.Is(err, ErrClosed):
		return Node{}, err
	case err != nil:
		return Node{}, fmt.Errorf("%w: %w", ErrNoNode, err)
	}
	return Node{client}, nil
}

// newSocketDialer returns a dialer of sockets to a server. It ends with the pool, or by
// closeSocketDialer.
func (p *Pool) newSocketDialer(node Node) *socketDialer {
	s := &socketDialer{servers: p.servers}
	if p.address.kind == Sentinels {
		options := p.address.failover()
		options.OnConnect = s.noteAuthenticated
		s.client = goredis.NewFailoverClient(options)
	} else {
		options := *node.client.Options()
		options.OnConnect = s.noteAuthenticated
		s.client = goredis.NewClient(&options)
	}
	s.client.AddHook(dialHook{s})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[s.client] = true
	return s
}

func (p *Pool) closeSocketDialer(s *socketDialer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, s.client)
	s.client.Close()
}

// NameOf returns how the configuration names a server: its address, or the name that sentinels
// have for the primary.
func (p *Pool) NameOf(node Node) string { return cmp.Or(p.address.master, node.Addr()) }

// Redact returns an error whose text is without the password.
func (p *Pool) Redact(err error) error { return p.address.redactor.Error(err) }

// ReloadTopology makes the pool read again which node has what, after a call has failed.
func (p *Pool) ReloadTopology() {
	if p.cluster != nil {
		p.cluster.ReloadState(context.Background())
	}
}

// Each calls do with every server that has keys, or can have them after a failover, and returns
// the first error. The candidates of sentinels are the replicas of the primary. The calls can
// be concurrent.
func (p *Pool) Each(ctx context.Context, do func(context.Context, Node) error) error {
	switch p.address.kind {
	case Cluster:
		return p.cluster.ForEachShard(ctx, func(ctx context.Context, client *goredis.Client) error { return do(ctx, Node{client}) })
	case Sentinels:
		if err := p.eachReplica(ctx, do); err != nil {
			return err
		}
	}
	return do(ctx, Node{p.one})
}

// eachReplica calls do with the replicas of the primary.
func (p *Pool) eachReplica(ctx context.Context, do func(context.Context, Node) error) error {
	info, err := p.one.Info(ctx, "replication").Result()
	if err != nil {
		return nil // the primary itself reports the same
	}
	for _, match := range replicaLine.FindAllStringSubmatch(info, -1) {
		options := *p.address.options
		options.Addr = net.JoinHostPort(match[1], match[2])
		options.OnConnect = nil
		client := goredis.NewClient(&options)
		err := do(ctx, Node{client})
		client.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

var replicaLine = regexp.MustCompile(`(?m)^slave\d+:ip=([^,]+),port=(\d+),`)

// Close ends all connections.
func (p *Pool) Close() error {
	var c io.Closer = p.one
	if p.cluster != nil {
		c = p.cluster
	}
	err := c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for client := range p.calls {
		err = cmp.Or(err, client.Close())
	}
	return err
}

func init() {
	// What go-redis would log is also returned as errors.
	goredis.SetLogger(nopLogger{})
}

type nopLogger struct{}

func (nopLogger) Printf(context.Context, string, ...any) {}
