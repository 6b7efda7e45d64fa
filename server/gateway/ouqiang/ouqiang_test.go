package ouqiang_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/gateway/ouqiang"
	"redstalk/server/queue"
	"redstalk/tube"
)

// TestText: the five paths, their fields, messages and checks, in the order of the old
// program.
func TestText(t *testing.T) {
	fault := func(message string) string { return `{"code":1,"message":"` + message + `","data":null}` }
	withHarness(t, ouqiang.Config{}, func(w *harness) {
		for _, c := range []struct{ path, body, answer string }{
			// JSON, id, topic, delay, ttr: in this order
			{"/push", `{`, fault("解析json失败")},
			{"/push", ``, fault("解析json失败")},
			{"/push", `{"topic":1}`, fault("解析json失败")},
			{"/push", `{"id":"1","topic":"t","delay":"1","ttr":1}`, fault("解析json失败")},
			{"/push", `{"id":"1","topic":"t","delay":1.5,"ttr":1}`, fault("解析json失败")},
			{"/push", `{"id":"1","topic":"t","delay":99999999999999999999,"ttr":1}`, fault("解析json失败")},
			{"/push", `{} {}`, fault("解析json失败")},
			{"/push", `{}`, fault("job id不能为空")},
			{"/push", `{"id":" \t\n","topic":"t"}`, fault("job id不能为空")},
			{"/push", `{"id":"1"}`, fault("topic 不能为空")},
			{"/push", `{"id":"1","topic":"  "}`, fault("topic 不能为空")},
			{"/push", `{"id":"1","topic":"t"}`, fault("delay 取值范围1 - (2^31 - 1)")},
			{"/push", `{"id":"1","topic":"t","delay":-1}`, fault("delay 取值范围1 - (2^31 - 1)")},
			{"/push", `{"id":"1","topic":"t","delay":2147483649,"ttr":1}`, fault("delay 取值范围1 - (2^31 - 1)")},
			{"/push", `{"id":"1","topic":"t","delay":1}`, fault("ttr 取值范围1 - 86400")},
			{"/push", `{"id":"1","topic":"t","delay":1,"ttr":86401}`, fault("ttr 取值范围1 - 86400")},
			{"/push", `{"id":"1","topic":"t","delay":1,"ttr":-5}`, fault("ttr 取值范围1 - 86400")},
			{"/pop", `x`, fault("解析json失败")},
			{"/pop", `{}`, fault("topic不能为空")},
			{"/pop", `{"topic":" "}`, fault("topic不能为空")},
			{"/delete", `[]`, fault("解析json失败")},
			{"/delete", `{}`, fault("job id不能为空")},
			{"/finish", `{"id":" "}`, fault("job id不能为空")},
			{"/get", `{"id":""}`, fault("job id不能为空")},
			{"/get", `null`, fault("job id不能为空")},
			// allowed extremes, and unknown fields
			{"/push", `{"id":"max","topic":"t","delay":2147483648,"ttr":86400,"other":1}`, pushed},
			{"/push", `{"ID":" min ","Topic":"t","delay":1,"ttr":1,"body":""}`, pushed},
			// unknown ids succeed
			{"/delete", `{"id":"nobody"}`, done},
			{"/finish", `{"id":"nobody"}`, done},
			{"/get", `{"id":"nobody"}`, done},
			{"/push", `{"id":"1","topic":"t","delay":1,"ttr":1,"body":"` + strings.Repeat("x", 101) + `"}`, fault("JOB_TOO_BIG")},
		} {
			w.want(c.path, c.body, c.answer)
		}
		if stats, err := w.queue.Stats(context.Background()); err != nil || stats.Jobs != 2 {
			w.Errorf("there are %+v (%v), want 2 jobs", stats, err)
		}
	})
}

// TestMethodsAndPaths: any method is accepted, and there are no other paths. The rest of the
// answer is as before.
func TestMethodsAndPaths(t *testing.T) {
	withHarness(t, ouqiang.Config{}, func(w *harness) {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, "ANY"} {
			if got := w.sendWith(context.Background(), method, "/get", `{"id":"x"}`); got != done {
				w.Errorf("%s answers %s", method, got)
			}
		}
		for _, path := range []string{"/", "/push/", "/stats", "/Push"} {
			if status := w.status(path); status != http.StatusNotFound {
				w.Errorf("%s answers status %d", path, status)
			}
		}
	})
}

// TestFlow: a job pushed with a delay is delivered to a waiting pop, and again when its ttr
// ends, until it is finished. get shows the due second throughout.
func TestFlow(t *testing.T) {
	withHarness(t, ouqiang.Config{}, func(w *harness) {
		due := time.Now().Unix() + 10
		shown := fmt.Sprintf(`{"code":0,"message":"操作成功","data":{"topic":"order","id":"1","delay":%d,"ttr":20,"body":"body of 1"}}`, due)
		w.push("order", "1", 10, 20)
		w.want("/get", `{"id":"1"}`, shown)
		w.wantTook(w.pop("order", "1"), 10*time.Second)
		w.want("/get", `{"id":" 1 "}`, shown)
		for range 3 {
			w.wantTook(w.pop("order", "1"), 20*time.Second)
		}
		w.want("/finish", `{"id":"1"}`, done)
		w.want("/get", `{"id":"1"}`, done)
		w.wantTook(w.pop("order", ""), ouqiang.DefaultBlock)
	})
}

// TestBlockTime: the waiting time of a pop can be configured, even without limit.
func TestBlockTime(t *testing.T) {
	withHarness(t, ouqiang.Config{Block: 7 * time.Second}, func(w *harness) {
		w.wantTook(w.pop("a,b", ""), 7*time.Second)
	})
	withHarness(t, ouqiang.Config{Block: -1}, func(w *harness) {
		w.push("a", "late", 10_000, 10)
		w.wantTook(w.pop("b,a", "late"), 10_000*time.Second)
	})
}

// TestTopicsInOrder: of several topics, the first one that has a job gives one; within a
// topic, the job that was due first comes first.
func TestTopicsInOrder(t *testing.T) {
	withHarness(t, ouqiang.Config{Block: time.Second}, func(w *harness) {
		for i, topic := range []string{"a", "b", "c"} {
			w.push(topic, topic+"2", 2+i, 60)
			w.push(topic, topic+"1", 1+i, 60)
		}
		time.Sleep(10 * time.Second)
		for _, id := range []string{"c1", "c2", "a1", "a2", "b1", "b2", ""} {
			w.pop("c,a,b,c", id)
		}
	})
}

// TestDeleteInEveryState: a deleted job is not delivered, whether it was delayed, ready or
// reserved.
func TestDeleteInEveryState(t *testing.T) {
	for _, path := range []string{"/delete", "/finish"} {
		withHarness(t, ouqiang.Config{Block: 30 * time.Second}, func(w *harness) {
			for _, id := range []string{"waits", "ready", "taken"} {
				w.push("t", id, 1, 10)
				switch id {
				case "ready":
					time.Sleep(2 * time.Second)
				case "taken":
					w.pop("t", id)
				}
				w.want(path, `{"id":"`+id+`"}`, done)
				w.pop("t", "")
			}
		})
	}
}

// TestSameID: a push replaces the job with its id, also under another topic and if it is
// reserved.
func TestSameID(t *testing.T) {
	withHarness(t, ouqiang.Config{Block: 30 * time.Second}, func(w *harness) {
		w.push("a", "1", 1, 10)
		w.push("a", "1", 5, 10)
		w.wantTook(w.pop("a", "1"), 5*time.Second)
		w.push("b", "1", 1, 10)
		w.pop("a", "")
		w.pop("b", "1")
		w.push("a", "1", 1, 10)
		w.want("/finish", `{"id":"1"}`, done)
		w.pop("a,b", "")
	})
}

// TestSameIDAtOnce: of concurrent pushes under many topics, one stays.
func TestSameIDAtOnce(t *testing.T) {
	withHarness(t, ouqiang.Config{}, func(w *harness) {
		ended := make(chan bool)
		for i := range 20 {
			go func() {
				w.push(fmt.Sprint("topic", i), "same", 1, 10)
				ended <- true
			}()
		}
		for range 20 {
			<-ended
		}
		if jobs, err := w.queue.FindKey(context.Background(), "same"); err != nil || len(jobs) != 1 {
			w.Errorf("there are %+v (%v)", jobs, err)
		}
	})
}

// TestTextsOfAnyKind: topics and ids that are no valid names work like others.
func TestTextsOfAnyKind(t *testing.T) {
	withHarness(t, ouqiang.Config{Block: time.Second}, func(w *harness) {
		for _, text := range []string{"订单", "two words", "-minus", "$(x", "%~x", "<&>\u2028x", strings.Repeat("长", 300)} {
			q, err := json.Marshal(text)
			if err != nil {
				w.Fatal(err)
			}
			body := strings.Repeat("b", 100) // the largest possible, also where topic and id are stored with it
			w.want("/push", fmt.Sprintf(`{"topic":%s,"id":%s,"delay":1,"ttr":10,"body":"%s"}`, q, q, body), pushed)
			time.Sleep(2 * time.Second)
			w.want("/pop", fmt.Sprintf(`{"topic":%s}`, q), fmt.Sprintf(`{"code":0,"message":"操作成功","data":{"id":%s,"body":"%s"}}`, q, body))
			w.want("/finish", fmt.Sprintf(`{"id":%s}`, q), done)
			w.want("/get", fmt.Sprintf(`{"id":%s}`, q), done)
		}
	})
}

// TestJobsOfOtherListeners: jobs that a beanstalk client has put are delivered too, and can
// be finished.
func TestJobsOfOtherListeners(t *testing.T) {
	withHarness(t, ouqiang.Config{Block: time.Second}, func(w *harness) {
		ctx := context.Background()
		id, err := w.queue.Put(ctx, queue.NewJob{Tube: "t", TTR: 60, Body: []byte("\xff")})
		if err != nil {
			w.Fatal(err)
		}
		name := fmt.Sprintf("job:%d", id)
		w.want("/pop", `{"topic":"t"}`, `{"code":0,"message":"操作成功","data":{"id":"`+name+`","body":"\ufffd"}}`)
		w.want("/finish", `{"id":"`+name+`"}`, done)
		if _, err := w.queue.Peek(ctx, id); err != queue.ErrNotFound {
			w.Errorf("it is still there: %v", err)
		}
		holder := w.queue.NewHolder()
		w.push("t", "held", 1, 60)
		if _, err := w.queue.Reserve(ctx, holder, []string{"t"}, time.Minute); err != nil {
			w.Fatal(err)
		}
		w.want("/delete", `{"id":"held"}`, done)
		w.want("/get", `{"id":"held"}`, done)
	})
}

// TestStrict: finish of a reserved job needs its lease, delete does not.
func TestStrict(t *testing.T) {
	withHarness(t, ouqiang.Config{Strict: true, Block: time.Minute}, func(w *harness) {
		w.push("t", "1", 1, 10)
		lease := func() string {
			var answer struct{ Data struct{ Lease string } }
			if err := json.Unmarshal([]byte(w.send("/pop", `{"topic":"t"}`)), &answer); err != nil || answer.Data.Lease == "" {
				w.Errorf("the lease is %q (%v)", answer.Data.Lease, err)
			}
			return answer.Data.Lease
		}
		old, refused := lease(), `{"code":1,"message":"the job is taken: finish needs its lease","data":null}`
		now := lease() // after the ttr
		w.want("/finish", `{"id":"1"}`, refused)
		w.want("/finish", `{"id":"1","lease":"`+old+`"}`, refused)
		w.want("/finish", `{"id":"1","lease":"x"}`, `{"code":1,"message":"lease is not one that pop has answered","data":null}`)
		w.want("/finish", `{"id":"1","lease":"`+now+`"}`, done)
		w.want("/get", `{"id":"1"}`, done)
		w.want("/finish", `{"id":"1","lease":"`+now+`"}`, done)
		for _, path := range []string{"/finish", "/delete"} {
			w.push("t", "2", 1, 10)
			if path == "/delete" {
				lease()
			}
			w.want(path, `{"id":"2"}`, done)
			w.want("/get", `{"id":"2"}`, done)
		}
	})
}

// TestClientGone: neither a client that leaves while it waits nor one that does not receive
// its answer takes a job with it.
func TestClientGone(t *testing.T) {
	withHarness(t, ouqiang.Config{Block: time.Minute}, func(w *harness) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan bool)
		go func() {
			w.sendWith(ctx, http.MethodPost, "/pop", `{"topic":"t"}`)
			close(ended)
		}()
		synctest.Wait()
		w.push("t", "1", 1, 60)
		cancel()
		<-ended
		time.Sleep(2 * time.Second)
		w.wantState("1", tube.Ready, 0)
		w.popUnwritten()
		synctest.Wait()
		w.wantState("1", tube.Ready, 1)
		w.pop("t", "1")
	})
}

// TestManyWait: beyond the limit no pop waits.
func TestManyWait(t *testing.T) {
	withHarness(t, ouqiang.Config{Block: time.Minute, MaxWaiting: 2}, func(w *harness) {
		ended := make(chan bool)
		for range 2 {
			go func() {
				w.pop("t", "")
				ended <- true
			}()
		}
		synctest.Wait()
		w.want("/pop", `{"topic":"t"}`, `{"code":1,"message":"TOO_MANY","data":null}`)
		<-ended
		<-ended
		w.wantTook(w.pop("t", ""), time.Minute)
	})
}

// TestDraining: a push is refused, everything else works.
func TestDraining(t *testing.T) {
	withHarness(t, ouqiang.Config{Block: time.Minute}, func(w *harness) {
		w.push("t", "1", 1, 60)
		w.queue.Drain()
		w.want("/push", `{"topic":"t","id":"2","delay":1,"ttr":1,"body":""}`, `{"code":1,"message":"DRAINING","data":null}`)
		w.pop("t", "1")
	})
}
