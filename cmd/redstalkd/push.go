package main

import (
	"context"
	"crypto/x509"
	"fmt"

	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/server/webhook"
)

// pushSettings are those of pushes.
type pushSettings struct {
	allow   *webhook.Allow // nil: nothing is pushed
	secrets string         // a file; "": webhooks are not signed
	ca      string         // a file; "": the CAs of the system
	proxy   bool
}

// pushOptions are those of pushes.
func (s *settings) pushOptions() []*option {
	return []*option{
		{name: "push-allow", value: "LIST", set: s.setPushAllow,
			help: "let tubes push their jobs to these: host names, *.DOMAIN, addresses and networks,\n" +
				"each with :PORT or without, with commas; * is every public host"},
		{name: "push-secrets", value: "FILE", set: setNonEmpty(&s.pushes.secrets),
			help: "sign what is pushed with the secrets of this file; read again on SIGHUP"},
		{name: "push-ca", value: "FILE", set: setNonEmpty(&s.pushes.ca),
			help: "trust the certificates of this file when pushing, instead of the system's"},
		{name: "push-proxy", set: setBool(&s.pushes.proxy),
			help: "push through the proxies that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name"},
	}
}

func (s *settings) setPushAllow(v string) (err error) {
	s.pushes.allow, err = webhook.ParseAllow(v)
	return err
}

// pushConfig reads the files that pushes need.
func (p *program) pushConfig() (c webhook.Config, err error) {
	c = webhook.Config{Allow: p.pushes.allow, Proxy: p.pushes.proxy, Version: Version, Log: p.log}
	if p.pushes.secrets != "" {
		if c.Secrets, err = p.readPushSecrets(); err != nil {
			return c, failure(exitUsage, "--push-secrets: %w", err)
		}
	}
	if p.pushes.ca != "" {
		if c.CAs, err = readCAs(p.pushes.ca); err != nil {
			return c, failure(exitUsage, "--push-ca: %w", err)
		}
	}
	return c, nil
}

// readPushSecrets reads what signs webhooks.
func (p *program) readPushSecrets() (s *webhook.Secrets, err error) {
	text, err := access.ReadSecrets(p.pushes.secrets, p.log)
	if err == nil {
		s, err = webhook.ParseSecrets(text)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the secrets for pushes in %s: %w", p.pushes.secrets, err)
	}
	return s, nil
}

// readCAs returns the certificates of a file, instead of those of the system.
func readCAs(file string) (*x509.CertPool, error) {
	text, err := access.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return pool, nil
}

// mayPush is queue.Config.MayPush.
func (p *program) mayPush() func(url string) bool {
	if p.pushes.allow == nil {
		return nil
	}
	return p.pushes.allow.URL
}

// startPushing starts the dispatcher, if anything may be pushed.
func (p *program) startPushing(q *queue.Queue, c webhook.Config) {
	if p.pushes.allow == nil {
		return
	}
	c.NamedTubes = p.metrics.namedTubes()
	d := webhook.New(q, c)
	p.dispatcher.Store(d)
	p.observer.Pushing(d.Stats)
	if p.pushes.secrets == "" {
		p.log.Info("webhooks are not signed, as there is no --push-secrets")
	}
}

// stopPushing ends the calls that are under way. The channel is closed when they have ended.
func (p *program) stopPushing(ctx context.Context) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d := p.dispatcher.Load()
		if d == nil {
			return
		}
		if err := d.Close(ctx); err != nil {
			p.log.Warn("pushes were cut off at the end of the grace period", "grace", p.grace)
		}
	}()
	return ended
}

// reloadPush reads the secrets again. A faulty file changes nothing.
func (p *program) reloadPush() {
	d := p.dispatcher.Load()
	if d == nil || p.pushes.secrets == "" {
		return
	}
	s, err := p.readPushSecrets()
	if err != nil {
		p.log.Error("the secrets of pushes stay as they are", "err", err)
		return
	}
	d.SetSecrets(s)
	p.log.Info("the secrets of pushes were read again")
}
