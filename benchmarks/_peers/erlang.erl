%% Erlang/OTP, the same protocol as _peers/serve.py; ring only.
-module(erlang_ring).
-export([main/0]).

main() ->
    case io:get_line("") of
        eof -> halt();
        Line ->
            {ok, [Ops, Actors], _} = io_lib:fread("[\"ring\", ~d, ~d]", Line),
            Wall = ring(Ops, Actors),
            io:format("{\"ops\": ~b, \"wall\": ~.9f}~n", [Ops, Wall]),
            main()
    end.

ring(Ops, Actors) ->
    Me = self(),
    First = spawn(fun() -> receive {next, Next} -> node(Next, Me) end end),
    Second = lists:foldl(fun(_, Next) -> spawn(fun() -> node(Next, Me) end) end,
                         First, lists:seq(2, Actors)),
    First ! {next, Second},
    Start = erlang:monotonic_time(nanosecond),
    First ! Ops,
    receive done -> ok end,
    Wall = (erlang:monotonic_time(nanosecond) - Start) / 1.0e9,
    First ! stop,
    Wall.

node(Next, Me) ->
    receive
        stop -> Next ! stop;
        1 -> Me ! done, node(Next, Me);
        Left -> Next ! Left - 1, node(Next, Me)
    end.
