package httpapi

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"redstalk/tube"
)

// job returns the job with an id.
func (a *harness) job(id uint64) JobInfo {
	a.t.Helper()
	return decode[JobInfo](a.t, a.want(200, "GET", fmt.Sprintf("/v1/jobs/%d", id), ""))
}

// TestCheckpoints: the next delivery has the checkpoint, whatever its bytes are; no progress, and no checkpoint of a lease that is over.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	old := a.putAndReserve(`{"body":"x"}`)
	path := fmt.Sprintf("/v1/jobs/%d", old.ID)
	a.want(204, "POST", path+"/release?failure=no&lease="+old.Lease, "")
	for _, data := range []string{"{\"row\":7}", "\x00\xff", strings.Repeat("c", tube.MaxCheckpoint)} {
		j := a.reserve("tube=t")[0]
		a.want(404, "PUT", path+"/checkpoint?lease="+old.Lease, "older", octets)
		a.want(204, "PUT", path+"/checkpoint?lease="+j.Lease, data, octets)
		progress := "4 %\tof <b>ä</b>"
		a.want(204, "POST", path+"/touch?lease="+j.Lease+"&progress="+url.QueryEscape(progress), "")
		a.want(204, "POST", path+"/touch?lease="+j.Lease, "")
		if info := a.job(j.ID); info.Progress != progress || info.CheckpointBytes != len(data) {
			t.Errorf("%.20q: %+v", data, info)
		}
		got := a.want(200, "GET", path+"/checkpoint", "")
		if got.body != strings.TrimSpace(data) || got.header.Get("Content-Type") != octetType || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%.20q: %.20q %v", data, got.body, got.header)
		}
		a.want(204, "POST", path+"/release?failure=no&lease="+j.Lease, "")
		again := a.reserve("tube=t")[0]
		if raw, err := base64.StdEncoding.DecodeString(again.Checkpoint); err != nil || string(raw) != data || again.CheckpointBytes != len(data) {
			t.Errorf("%.20q: %v %+.200v", data, err, again)
		}
		if info := a.job(j.ID); info.Progress != "" || info.CheckpointBytes != len(data) {
			t.Errorf("%.20q: %+v", data, info)
		}
		a.want(204, "POST", path+"/release?failure=no&lease="+again.Lease, "")
	}
	j := a.reserve("tube=t")[0]
	a.want(204, "POST", path+"/touch?lease="+j.Lease+"&progress=half", "")
	a.want(204, "POST", path+"/touch?lease="+j.Lease+"&progress=", "")
	a.want(204, "PUT", path+"/checkpoint?lease="+j.Lease, "", none, changeHeader+": 1")
	a.want(404, "GET", path+"/checkpoint", "")
	if info := a.job(j.ID); info.Progress != "" || info.CheckpointBytes != 0 {
		t.Errorf("%+v", info)
	}
}

// TestManyCheckpoints: the answer to a reserve says of each checkpoint how large it is, and has as many of them as fit.
func TestManyCheckpoints(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	const n = 4<<20/tube.MaxCheckpoint + 3
	for range n {
		a.want(201, "POST", "/v1/tubes/t/jobs", `{"body":"x"}`)
	}
	for _, j := range a.reserve(fmt.Sprint("tube=t&n=", n)) {
		a.want(204, "PUT", fmt.Sprintf("/v1/jobs/%d/checkpoint?lease=%s", j.ID, j.Lease), strings.Repeat("c", tube.MaxCheckpoint), octets)
		a.want(204, "POST", fmt.Sprintf("/v1/jobs/%d/release?lease=%s", j.ID, j.Lease), "")
	}
	with := 0
	for _, j := range a.reserve(fmt.Sprint("tube=t&n=", n)) {
		if j.CheckpointBytes != tube.MaxCheckpoint {
			t.Errorf("job %d: %d bytes", j.ID, j.CheckpointBytes)
		}
		if j.Checkpoint != "" {
			with++
		}
	}
	if with != n-3 {
		t.Errorf("%d of %d jobs have theirs", with, n)
	}
}

// TestKeepCheckpoint: a job that a human starts anew keeps its checkpoint only on request.
func TestKeepCheckpoint(t *testing.T) {
	t.Parallel()
	for _, again := range []string{"POST /v1/jobs/%d/kick", "POST /v1/jobs/%d/replay", "POST /v1/tubes/t/kick", "kick", "replay"} {
		for _, keep := range []bool{false, true} {
			a := start(t, Config{})
			j := a.putAndReserve(`{"body":"x"}`)
			path := fmt.Sprintf("/v1/jobs/%d", j.ID)
			a.want(204, "PUT", path+"/checkpoint?lease="+j.Lease, "here", octets)
			a.want(204, "POST", path+"/bury?lease="+j.Lease, "")
			if method, to, isPath := strings.Cut(again, " "); isPath {
				if strings.Contains(to, "%d") {
					to = fmt.Sprintf(to, j.ID)
				}
				if got := a.call(method, fmt.Sprint(to, "?keep_checkpoint=", keep), ""); got.status >= 300 {
					t.Errorf("%s: %+v", again, got)
				}
			} else if got := a.act(fmt.Sprintf(`{"action":%q,"ids":[%d],"keep_checkpoint":%t}`, again, j.ID, keep)); got.Done != 1 {
				t.Errorf("%s: %+v", again, got)
			}
			if info := a.job(j.ID); info.State != "ready" || (info.CheckpointBytes == len("here")) != keep {
				t.Errorf("%s, keep %t: %+v", again, keep, info)
			}
		}
	}
}

// TestRightsOnCheckpoints: readers and workers get checkpoints, and only workers save them.
func TestRightsOnCheckpoints(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "root * put,work,read,admin", "reader t read", "worker t work", "other u read,work", "putter t put,admin")
	auth := func(user string) string { return "Authorization: Bearer " + user + ":" + user }
	g.want(201, "POST", "/v1/tubes/t/jobs", `{"body":"x"}`, auth("putter"))
	j := decode[[]leasedJob](t, g.want(200, "POST", "/v1/reserve?tube=t", "", auth("worker")))[0]
	path := fmt.Sprintf("/v1/jobs/%d/checkpoint", j.ID)
	for user, status := range map[string]int{"reader": 403, "putter": 403, "other": 404, "worker": 204} {
		g.want(status, "PUT", path+"?lease="+j.Lease, "c", octets, auth(user))
	}
	for user, status := range map[string]int{"reader": 200, "putter": 403, "other": 404, "worker": 200} {
		g.want(status, "GET", path, "", auth(user))
	}
}
