package attack

import (
	"fmt"
	"os/exec"
	"time"
)

// checks are the attacks by operations that read everything.
var checks = []attack{
	{"fsck-5m", "fsck of 200,000 tubes and 5,000,000 jobs, while an instance serves", "it passes; no call above 20 ms", fsckMany},
}

func fsckMany(r *run) error {
	return r.on(redis, 1, nil, func(s *cluster) error {
		at := s.instances[0]
		c, err := dial(at.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		begun := time.Now()
		if err := spread(c, 200_000, 25); err != nil {
			return err
		}
		r.report("put in %s", format(time.Since(begun)))
		t, err := s.during(at, func() error {
			out, err := exec.Command(r.bin, "fsck", "--store", s.storeURL()).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
		r.report("%v", t)
		return err
	})
}
