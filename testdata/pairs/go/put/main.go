// Put puts a job with a type, waits for its result, and prints it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"redstalk/clients/go/client"
)

// Pair is what the job is about.
type Pair struct {
	From string `json:"from"`
	N    int    `json:"n"`
	Text string `json:"text"`
}

func main() {
	addr, tube, from := os.Args[1], os.Args[2], os.Args[3]
	c := client.New(addr)
	defer c.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	result, err := client.Call[json.RawMessage](ctx, c, tube, "pair", Pair{from, 7, "é\n"},
		client.Key("pair-"+from+"-"+tube),
		client.Meta("request", "4711"),
		client.Trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
		client.Member("batch-"+tube),
		client.Group("acme"),
		client.Keep(time.Hour),
		client.Retry(0, 0),
	)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(result))
}
