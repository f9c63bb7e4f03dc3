select bidder, window_start, window_end, count(*) as bids
from session(bid partition by bidder, date_time, interval '10' second)
group by bidder, window_start, window_end
