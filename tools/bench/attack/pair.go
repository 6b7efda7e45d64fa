package attack

import "fmt"

// On a shared machine, other programs sometimes delay everybody. To separate that from the effect of an
// attack, waits are also measured at the same time on a twin: a cluster like the attacked one that is
// not attacked.

// A clusterPair is an attacked cluster and its twin.
type clusterPair struct {
	*cluster
	twin *cluster
	run  *run
	name string // of the cluster
}

// onMillions runs an attack on one instance with each engine, and on Redis with 16
// partitions. Each has a twin.
func (r *run) onMillions(attack func(*clusterPair) error) error {
	for _, e := range engines {
		if err := r.onMillion(string(e), e, nil, attack); err != nil {
			return err
		}
	}
	return r.onMillion("redis in 16 partitions", redis, []string{"--partitions", "16"}, attack)
}

func (r *run) onMillion(name string, e engine, flags []string, attack func(*clusterPair) error) error {
	if r.engine != "" && r.engine != name {
		return nil
	}
	twin, err := newCluster(r.bin, e, 1, flags...)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer twin.end()
	err = r.on(e, 1, flags, func(s *cluster) error { return attack(&clusterPair{s, twin, r, name}) })
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// beside runs an attack while bystanders work on the cluster and on the twin, and reports both.
func (m *clusterPair) beside(what string, attack func() error) error {
	o, err := startBystander(m.twin.instances[0].addr)
	if err != nil {
		return err
	}
	t, err := m.during(m.instances[0], attack)
	waits, failed := o.finish()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	m.run.report("%s, %s: %v, at most %s longer than the twin at that time; 999 of 1,000 at most %s; on the twin %s and %s", m.name, what,
		t, format(longestAlone(t.waits, waits)), format(t.rare), format(quantileOfWaits(waits, 1)), format(quantileOfWaits(waits, 0.999)))
	return failed
}
